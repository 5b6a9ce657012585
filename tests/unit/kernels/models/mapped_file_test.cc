#include "kernels/models/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <utility>

#include "tests/fixtures/temporary_directory.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

std::string Text(const MappedFile& file) {
  return std::string(reinterpret_cast<const char*>(file.data()), file.byte_count());
}

TEST(MappedFile, ShowsTheBytesOfTheFile) {
  const TemporaryDirectory directory;
  WriteFileBytes(directory.File("f"), "some bytes");
  const auto file = MappedFile::Open(directory.File("f"));
  ASSERT_TRUE(file.ok()) << file.status();
  file->ExpectScatteredReads();
  EXPECT_EQ(Text(*file), "some bytes");
  file->ExpectSequentialReads();
  file->ReadAhead();
  EXPECT_EQ(Text(*file), "some bytes");
}

TEST(MappedFile, MovesKeepTheMapping) {
  const TemporaryDirectory directory;
  WriteFileBytes(directory.File("f"), "first");
  WriteFileBytes(directory.File("g"), "second");
  auto first = MappedFile::Open(directory.File("f"));
  auto second = MappedFile::Open(directory.File("g"));
  ASSERT_TRUE(first.ok() && second.ok());
  MappedFile moved = *std::move(first);
  EXPECT_EQ(Text(moved), "first");
  moved = *std::move(second);
  EXPECT_EQ(Text(moved), "second");
}

TEST(MappedFile, NamesWhatCannotBeMapped) {
  const TemporaryDirectory directory;
  const auto missing = MappedFile::Open(directory.File("none"));
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr(directory.File("none")));

  WriteFileBytes(directory.File("empty"), "");
  EXPECT_THAT(std::string(MappedFile::Open(directory.File("empty")).status().message()),
              HasSubstr("the file is empty"));
  EXPECT_THAT(std::string(MappedFile::Open(directory.path()).status().message()),
              HasSubstr("want a regular file"));

  ASSERT_EQ(mkfifo(directory.File("pipe").c_str(), 0600), 0);
  EXPECT_THAT(std::string(MappedFile::Open(directory.File("pipe")).status().message()),
              HasSubstr("want a regular file"));
}

}  // namespace
}  // namespace baton
