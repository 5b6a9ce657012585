// What `baton bench decode` prints: a line a point, as a table's or as JSON. Pure.
#pragma once

#include <string>

#include "kernels/decode_benchmark.h"

namespace baton {

// Memory bandwidth of an H200 by its data sheet, bytes a second.
inline constexpr double kDeviceBytesPerSecond = 4.8e12;

std::string BenchTableHead();
// `stream` is the bandwidth of a plain stream in the same run, bytes a second.
std::string BenchTableLine(const DecodePoint& point, const DecodeMeasurement& measured,
                           double stream);
std::string BenchJsonLine(const DecodePoint& point, const DecodeMeasurement& measured,
                          double stream);

}  // namespace baton
