#include "client/lines/input_check.hpp"

#include <utility>

#include "client/lines/line_reader.hpp"
#include "schemas/codec.hpp"

namespace millrace::client {
namespace {

Status check_line(const InputLine& line, const ParsedLine& parsed, const InputCheck& check) {
  if (parsed.error) {
    return fail(*parsed.error);
  }
  if (!check.check_job) {
    return {};
  }
  MILLRACE_ASSIGN(const DecodedJob decoded, decode_job(parsed.body));
  return check.check_job(line, decoded.job);
}

class Reporter {
 public:
  Reporter(const InputFiles& files, const InputCheck& check) : files_(files), check_(check) {}

  void take(const InputLine& line, const ParsedLine& parsed) {
    ++report_.lines;
    if (const Status good = check_line(line, parsed, check_); !good) {
      note_bad(parsed, good.error());
      return;
    }
    ++(parsed.endpoint == openai::Endpoint::chat         ? report_.chats
       : parsed.endpoint == openai::Endpoint::completion ? report_.completions
                                                         : report_.plain);
    if (!parsed.warnings.empty() && report_.warned++ == 0) {
      report_.first_warned = at(parsed, {Code::unsupported_field, parsed.warnings.front(), ""});
    }
  }
  InputReport take_report() { return std::move(report_); }
  void note_stopped() { report_.whole = false; }

 private:
  BadInput at(const ParsedLine& parsed, Error error) const {
    return {files_.place(parsed.number), files_.place_text(parsed.number),
            parsed.custom_id.value_or(""), std::move(error)};
  }
  void note_bad(const ParsedLine& parsed, const Error& error) {
    ++report_.bad;
    ++report_.bad_by_code[error.code];
    if (report_.first_bad.size() < check_.most_kept) {
      report_.first_bad.push_back(at(parsed, error));
    }
  }

  const InputFiles& files_;
  const InputCheck& check_;
  InputReport report_;
};

}  // namespace

Result<InputReport> check_input(InputFiles& files, const InputCheck& check) {
  LineReader reader(files);
  Reporter reporter(files, check);
  CustomIds custom_ids;
  LineOptions options;
  options.strict = check.strict;
  options.own_queue = true;
  options.custom_ids = &custom_ids;
  for (InputLine line;;) {
    if (check.stop && check.stop()) {
      reporter.note_stopped();
      break;
    }
    MILLRACE_ASSIGN(const bool more, reader.next(line));
    if (!more) {
      break;
    }
    reporter.take(line, parse_line(line, options));
  }
  return reporter.take_report();
}

}  // namespace millrace::client
