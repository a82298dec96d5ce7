#pragma once
// The files of the live page, embedded by name. They are constants, which any thread may read.
#include <span>
#include <string_view>

namespace millrace::http {

struct PageFile {
  std::string_view name;  // "index.html", below http/page
  std::string_view bytes;
};

std::span<const PageFile> page_files();  // sorted by name

}  // namespace millrace::http
