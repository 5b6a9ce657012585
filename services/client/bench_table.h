// What `baton bench decode` and `baton bench prefill` print: a line a point, as a table's or as
// JSON. Pure.
#pragma once

#include <string>

#include "kernels/decode_benchmark.h"
#include "kernels/prefill_benchmark.h"

namespace baton {

// Memory bandwidth of an H200 by its data sheet, bytes a second.
inline constexpr double kDeviceBytesPerSecond = 4.8e12;

std::string BenchTableHead();
// `stream` is the bandwidth of a plain stream in the same run, bytes a second.
std::string BenchTableLine(const DecodePoint& point, const DecodeMeasurement& measured,
                           double stream);
std::string BenchJsonLine(const DecodePoint& point, const DecodeMeasurement& measured,
                          double stream);

// What a large bf16 product reaches on an H200, operations a second (measured with cuBLAS).
inline constexpr double kDeviceMatrixRate = 790e12;

std::string PrefillTableHead();
std::string PrefillTableLine(const PrefillPoint& point, const PrefillMeasurement& measured);
// Device time by kind of work, a line each.
std::string PrefillStageLines(const PrefillMeasurement& measured);
std::string PrefillJsonLine(const PrefillPoint& point, const PrefillMeasurement& measured);

}  // namespace baton
