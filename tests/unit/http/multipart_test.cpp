// Forms in pieces of any size: what they hold, what is skipped, and what is refused.
#include "http/multipart.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace millrace::http {
namespace {

struct Field {
  std::string name, filename, content;
  friend bool operator==(const Field&, const Field&) = default;
};

class Fields final : public FormReader {
 public:
  Status take(const FormPiece& piece) override {
    if (piece.name == "refused") return fail(Code::disk_full, "no room");
    if (piece.offset == 0) {
      all.push_back({std::string(piece.name), std::string(piece.filename), {}});
    } else {
      EXPECT_FALSE(piece.bytes.empty());
    }
    EXPECT_EQ(piece.offset, all.back().content.size());
    all.back().content += piece.bytes;
    ++pieces;
    return {};
  }
  std::vector<Field> all;
  std::size_t pieces = 0;
};

constexpr std::string_view usual_type = "multipart/form-data; boundary=XbX";

Result<std::vector<Field>> read_in_pieces(std::string_view body, std::size_t piece_bytes,
                                          std::string_view type) {
  MILLRACE_ASSIGN(Multipart form, Multipart::of(type));
  Fields fields;
  while (!body.empty()) {
    MILLRACE_TRY(form.read(body.substr(0, piece_bytes), fields));
    body.remove_prefix(std::min(piece_bytes, body.size()));
  }
  MILLRACE_TRY(form.end());
  return std::move(fields.all);
}

// What the form holds, or its error, which is the same whatever the pieces.
Result<std::vector<Field>> read(std::string_view body, std::string_view type = usual_type) {
  const auto whole = read_in_pieces(body, body.size(), type);
  for (const std::size_t piece_bytes : {1, 2, 7}) {
    EXPECT_EQ(read_in_pieces(body, piece_bytes, type), whole) << "in pieces of " << piece_bytes;
  }
  return whole;
}

std::string part(std::string_view headers, std::string_view content,
                 std::string_view boundary = "XbX") {
  return "--" + std::string(boundary) + "\r\n" + std::string(headers) + "\r\n\r\n" +
         std::string(content) + "\r\n";
}
std::string disposed(std::string_view parameters, std::string_view content = "x") {
  return part("Content-Disposition: form-data; " + std::string(parameters), content);
}
const std::string last = "--XbX--\r\n";

void expect_field(std::string_view body, const Field& field, std::string_view type = usual_type) {
  const auto fields = read(body, type);
  ASSERT_TRUE(fields) << fields.error().text() << "\n" << body;
  EXPECT_EQ(*fields, std::vector{field}) << body;
}

void expect_error(std::string_view body, std::string_view message,
                  std::string_view type = usual_type) {
  const auto fields = read(body, type);
  ASSERT_FALSE(fields) << body;
  EXPECT_TRUE(fields.error().message.contains(message)) << fields.error().text() << "\n" << body;
  EXPECT_FALSE(fields.error().hint.empty()) << body;
}

TEST(Multipart, PartsAreFields) {
  const auto fields = read(disposed("name=\"purpose\"", "batch") +
                           disposed("name=\"file\"; filename=\"a.jsonl\"", "{}\r\n") +
                           disposed("name=empty", "") + last);
  ASSERT_TRUE(fields) << fields.error().text();
  EXPECT_EQ(*fields,
            (std::vector<Field>{
                {"purpose", "", "batch"}, {"file", "a.jsonl", "{}\r\n"}, {"empty", "", ""}}));
  EXPECT_EQ(read(last), std::vector<Field>{});  // as browsers write a form without fields
}

TEST(Multipart, TheBoundaryComesFromTheTypeInAnyForm) {
  for (const std::string_view type :
       {"multipart/form-data; boundary=XbX", "multipart/form-data; boundary=\"XbX\"",
        "multipart/form-data; boundary=XbX; charset=utf-8",
        "multipart/form-data; charset=utf-8; boundary=XbX", "Multipart/Form-Data;BOUNDARY=XbX",
        "multipart/form-data ; boundary = XbX ;", "multipart/form-data; boundary=\"X\\bX\""}) {
    const bool escapes = type.contains('\\');  // a backslash before a letter stands for itself
    const std::string body = "--" + std::string(escapes ? "X\\bX" : "XbX") +
                             "\r\nContent-Disposition: form-data; name=a";
    expect_field(body + "\r\n\r\n1\r\n--" + (escapes ? "X\\bX--" : "XbX--"), {"a", "", "1"}, type);
  }
  for (const std::string& boundary :
       {std::string("q"), std::string("-"), std::string("--"), std::string("a b'()+_,-./:=?"),
        std::string(70, 'x'), std::string(70, '-')}) {
    const std::string body = part("Content-Disposition: form-data; name=a", "-\r\n-\r\n", boundary);
    expect_field(body + "--" + boundary + "--", {"a", "", "-\r\n-\r\n"},
                 "multipart/form-data; boundary=\"" + boundary + "\"");
  }
}

TEST(Multipart, DispositionsAsClientsWriteThem) {
  expect_field(disposed("name=purpose", "batch") + last, {"purpose", "", "batch"});
  expect_field(disposed("name=file; filename=a.jsonl; filename*=utf-8''a%20%C3%A9.jsonl") + last,
               {"file", "a \u00e9.jsonl", "x"});
  expect_field(disposed("filename*=iso-8859-1''%e9; filename=b; name=file") + last,
               {"file", "\u00e9", "x"});
  expect_field(disposed("name=\"file\"; filename*=utf-8''a") + last, {"file", "a", "x"});
  expect_field(disposed(R"(filename="x name=zzz"; name="file")") + last,
               {"file", "x name=zzz", "x"});
  expect_field(disposed(R"(name="file"; filename="a\"b\\c\d.jsonl")") + last,
               {"file", R"(a"b\c\d.jsonl)", "x"});
  expect_field(disposed(R"(name="f"; filename="%22%0D%0A")") + last, {"f", "%22%0D%0A", "x"});
  expect_field(part("content-DISPOSITION:Form-Data;Name=a", "x") + last, {"a", "", "x"});
  expect_field(part("Content-Type: text/plain\r\nContent-Transfer-Encoding: Binary\r\n"
                    "Content-Disposition: form-data;\r\n\tname=\"a\";\r\n filename=b\r\nX:",
                    "x") +
                   last,
               {"a", "b", "x"});
}

TEST(Multipart, WhatStandsAroundTheFormIsSkipped) {
  const std::string form = disposed("name=a", "1");
  expect_field("Hello\r\n--Xb\r\n\r\r\n" + form + last + "--XbX\r\nBye", {"a", "", "1"});
  expect_field("\r\n" + form + last, {"a", "", "1"});
  for (const std::string_view end : {"--XbX--", "--XbX-- \t ", "--XbX--\n", "--XbX-- \r\n\r\n"}) {
    expect_field(form + std::string(end), {"a", "", "1"});
  }
  expect_field("--XbX \t \r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--XbX--",
               {"a", "", "1"});
  // The empty line behind the headers ends with the delimiter's CR LF.
  expect_field("--XbX\r\nContent-Disposition: form-data; name=a\r\n\r\n--XbX--", {"a", "", ""});
}

TEST(Multipart, ContentsMayHaveBeginningsOfTheDelimiter) {
  const std::string delimiter = "\r\n--XbX";
  for (std::size_t bytes = 0; bytes < delimiter.size(); ++bytes) {
    const std::string begun = delimiter.substr(0, bytes);
    for (const std::string& content :
         {begun, begun + begun, begun + "x" + begun, "x" + begun + "\r" + begun,
          begun.substr(std::min<std::size_t>(2, bytes))}) {
      expect_field(disposed("name=a", content) + last, {"a", "", content});
    }
  }
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::string content;
    while (content.size() < 2'000) {
      const bool binary = random() % 8 == 0;
      content += binary ? static_cast<char>(random()) : "\r\n-XbX"[random() % 7];
    }
    for (std::size_t at = 0; (at = content.find(delimiter)) != content.npos;) content[at] = ' ';
    if (content.starts_with("--XbX")) content[0] = ' ';
    expect_field(disposed("name=a", content) + last, {"a", "", content});
  }
}

TEST(Multipart, NothingOfAContentIsKeptOrCopied) {
  // NOLINTNEXTLINE(bugprone-string-constructor): a large file
  const std::string content(1'000'000, '\r');
  const std::string body = disposed("name=a", content) + last;
  auto form = Multipart::of(usual_type);
  ASSERT_TRUE(form);
  class Views final : public FormReader {
   public:
    explicit Views(std::string_view body) : body_(body) {}
    Status take(const FormPiece& piece) override {
      ++pieces;
      const char* const begin = piece.bytes.data();
      inside = inside && begin >= body_.data() && begin < body_.data() + body_.size();
      return {};
    }
    std::size_t pieces = 0;
    bool inside = true;

   private:
    const std::string_view body_;
  } views(body);
  ASSERT_TRUE(form->read(body, views));
  ASSERT_TRUE(form->end());
  EXPECT_EQ(views.pieces, 1u);
  EXPECT_TRUE(views.inside);
}

TEST(Multipart, WhatIsCutShortIsRefusedWhereverItIs) {
  const std::string whole =
      "--XbX\r\nContent-Disposition: form-data; name=a\r\nX: y\r\n\r\n1\r\n--XbX--";
  for (std::size_t bytes = 1; bytes < whole.size(); ++bytes) {
    const std::string cut = whole.substr(0, bytes);
    expect_error(cut, bytes < 5 ? "no line that begins with --XbX"
                                : "cut short at byte " + std::to_string(bytes));
  }
  const auto form = Multipart::of(usual_type);
  ASSERT_TRUE(form);
  EXPECT_TRUE(form->end().error().message.contains("has 0 bytes"));  // an empty body
}

TEST(Multipart, WhatIsMalformedIsRefusedWithItsPlace) {
  const std::string first = disposed("name=a", "1");  // 53 bytes
  expect_error(first + "--XbX--b\r\n", "at byte " + std::to_string(first.size() + 7));
  expect_error(first + "--XbXY\r\n", "the line of a delimiter goes on");
  expect_error(first + "--XbX -", "the line of a delimiter goes on");
  expect_error(first + "--XbX\rx", "the line of a delimiter goes on");
  expect_error("--XbX\nContent-Disposition: form-data; name=a\n\n1\n--XbX--", "byte 5");
  expect_error("--XbX\r\nContent-Disposition: form-data; name=a\n\n1\r\n", "ends with LF alone");
  expect_error(first + part("X: y", "1"), "in part 2: the part has no header Content-Disposition");
  expect_error("--XbX\r\n\r\n1\r\n--XbX--", "no header Content-Disposition");
  expect_error("--XbX\r\n--XbX\r\n\r\n", "no NAME: VALUE");
  expect_error(part("Content-Disposition: form-data; name=a\r\nno colon", "1"), "no NAME: VALUE");
  expect_error(part(" Content-Disposition: form-data; name=a", "1"), "no NAME: VALUE");
  expect_error(part("Content-Disposition: form-data; name=a\r\r\nX: y", "1"), "no NAME: VALUE");
  expect_error(part("Content-Disposition: attachment; name=a", "1"), "no form-data with a name");
  expect_error(disposed("filename=a"), "no form-data with a name");
  expect_error(disposed("name=\"a"), "no closing quote");
  expect_error(disposed("name=a; name=b"), "comes twice");
  expect_error(disposed("name=a\r\nContent-Disposition: form-data; name=b"), "comes twice");
  expect_error(disposed("name=a; filename*=koi8-r''a"), "neither UTF-8 nor ISO-8859-1");
  expect_error(disposed("name=a\r\nContent-Transfer-Encoding: base64"), "7bit, 8bit and binary");
}

TEST(Multipart, HeadersOfAPartHaveABound) {
  const std::string line = "Content-Disposition: form-data; name=a\r\nX: ";
  const std::string fill(Multipart::header_bytes - line.size() - 4, 'x');
  expect_field(part(line + fill, "1") + last, {"a", "", "1"});
  expect_error(part(line + fill + "x", "1") + last, "more than the 16384 bytes");
  EXPECT_EQ(read(part(line + fill + "x", "1")).error().code, Code::limit_exceeded);
  std::string many;  // each part has its own
  for (int i = 0; i < 10; ++i) many += part(line + fill, "1");
  const auto fields = read(many + last);
  ASSERT_TRUE(fields) << fields.error().text();
  EXPECT_EQ(fields->size(), 10u);
}

TEST(Multipart, TheReadersErrorIsThatOfTheForm) {
  const auto fields = read(disposed("name=refused") + last);
  ASSERT_FALSE(fields);
  EXPECT_EQ(fields.error().code, Code::disk_full);
}

TEST(Multipart, TypesThatAreNoneOfAForm) {
  for (const std::string& bad :
       {std::string(), std::string("multipart/form-data"),
        std::string("multipart/mixed; boundary=a"), std::string("multipart/form-data; boundary"),
        std::string("multipart/form-data; boundary="),
        std::string("multipart/form-data; boundary=\"\""),
        std::string("multipart/form-data; boundary=\"a"),
        std::string("multipart/form-data; boundary=\"a \""),
        std::string("multipart/form-data; boundary=a; boundary=b"),
        std::string("multipart/form-data; boundary=\u00e9"),
        "multipart/form-data; boundary=" + std::string(71, 'x')}) {
    const auto form = Multipart::of(bad);
    ASSERT_FALSE(form) << bad;
    EXPECT_EQ(form.error().code, Code::invalid_value);
    EXPECT_FALSE(form.error().hint.empty()) << bad;
  }
}

}  // namespace
}  // namespace millrace::http
