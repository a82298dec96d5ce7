#include "client/commands/fidelity_report.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "schemas/base/json_writer.hpp"

namespace millrace::client {
namespace {

using engine::FidelityFigures;

std::string number(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string right(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

std::string left(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, text.size()), ' ');
}

std::string table(const FidelityReport& report, const std::string& truth, bool of_reference) {
  std::size_t name = 6, codecs = 11;
  for (const auto& row : report.rows) {
    name = std::max(name, row.name.size());
    codecs = std::max(codecs, row.found.policy.size());
  }
  std::string out = "against " + truth + "\n" + left("policy", name) + "  " +
                    left("keys/values", codecs) +
                    "  bytes/token  smaller   mean KLD    p99 KLD    max KLD  top-1 %"
                    "  perplexity\n";
  for (const auto& row : report.rows) {
    const FidelityFigures& at =
        of_reference ? row.found.against_reference.value() : row.found.against_f16;
    out += left(row.name, name) + "  " + left(row.found.policy, codecs) +
           right(tick_text(row.found.bytes_per_token), 13) +
           right(number("%.2fx", row.found.compression), 9);
    for (const double kld : {at.mean_kld, at.p99_kld, at.max_kld}) {
      out += right(number("%.3g", kld), 11);
    }
    out +=
        right(number("%.2f", 100 * at.top1), 9) + right(number("%.3f", at.perplexity), 12) + "\n";
  }
  const FidelityFigures& first = of_reference ? report.rows[0].found.against_reference.value()
                                              : report.rows[0].found.against_f16;
  return out + "perplexity of " + truth + ": " + number("%.3f", first.truth_perplexity) + "\n";
}

void write_figures(JsonWriter& out, const char* name, const FidelityFigures& figures) {
  out.key(name).begin_object();
  out.field("mean_kld", figures.mean_kld).field("p99_kld", figures.p99_kld);
  out.field("max_kld", figures.max_kld).field("top1", figures.top1);
  out.field("perplexity", figures.perplexity);
  out.field("truth_perplexity", figures.truth_perplexity).end_object();
}

}  // namespace

std::string fidelity_title(const FidelityReport& report) {
  return report.model + ": " + std::to_string(report.contexts) +
         (report.contexts == 1 ? " context of " : " contexts of ") +
         std::to_string(report.context_tokens) + " tokens, --math " + report.math + ", " +
         report.device;
}

std::string fidelity_tables(const FidelityReport& report) {
  if (report.rows.empty()) return "";
  std::string out = std::to_string(report.rows[0].found.against_f16.positions) +
                    " positions scored; KLD in nats\n";
  if (!report.centered_by.empty()) {
    out +=
        "the policies store centered keys; digest of the mean keys: " + report.centered_by + "\n";
  }
  out += "\n" + table(report, "fp16 KV", false);
  if (!report.reference.empty()) out += "\n" + table(report, report.reference, true);
  return out;
}

std::string fidelity_json(const FidelityReport& report, const FidelityReport::Row& row) {
  const engine::PolicyFidelity& found = row.found;
  std::string line;
  JsonWriter out(line);
  out.begin_object().field("policy", row.name).field("codecs", found.policy);
  out.field("layers", found.layers).field("fingerprint", found.fingerprint);
  out.field("model", report.model).field("device", report.device).field("math", report.math);
  out.field("contexts", report.contexts).field("context_tokens", report.context_tokens);
  out.field("positions", found.against_f16.positions);
  if (!report.centered_by.empty()) out.field("keys_centered_by", report.centered_by);
  out.field("bytes_per_token", found.bytes_per_token).field("compression", found.compression);
  write_figures(out, "against_f16", found.against_f16);
  if (found.against_reference) {
    out.field("reference", report.reference);
    write_figures(out, "against_reference", *found.against_reference);
  }
  out.end_object();
  return line;
}

Scatter fidelity_scatter(const FidelityReport& report) {
  Scatter out;
  out.title = report.model + ", " + std::to_string(report.contexts) + " x " +
              std::to_string(report.context_tokens) + " tokens, --math " + report.math +
              (report.centered_by.empty() ? "" : ", keys centered");
  out.x_name = "KV bytes per token";
  out.y_name =
      "mean KLD against " + (report.reference.empty() ? "fp16 KV" : report.reference) + ", nats";
  for (const auto& row : report.rows) {
    const auto& reference = row.found.against_reference;
    out.points.push_back({row.found.bytes_per_token,
                          reference ? reference->mean_kld : row.found.against_f16.mean_kld,
                          row.name});
  }
  return out;
}

}  // namespace millrace::client
