#include "client/commands/top_frame.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "client/commands/command.hpp"
#include "client/commands/fitted_table.hpp"
#include "client/commands/load_text.hpp"
#include "client/commands/times.hpp"
#include "client/run/progress_text.hpp"
#include "schemas/base/number_text.hpp"

namespace millrace::client {
namespace {

constexpr std::uint64_t silent_from_ms = 3 * limits::heartbeat_ms;
constexpr std::size_t bar_columns = 10;

template <class... Values>
std::string text(const char* format, Values... values) {
  std::array<char, 96> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, values...);
  return buffer.data();
}

std::string time_text_of(std::uint64_t ms) {
  return duration_text(static_cast<double>(ms) / 1e3);
}

std::string of_text(const std::string& part, const std::string& whole) {
  return part + "/" + whole;
}

// A part of the screen: a heading and its lines.
struct Section {
  std::string heading;
  std::vector<std::string> lines;
  std::string what;  // of which there are more than lines fit
  std::string note;  // stands below, whatever fits
  std::size_t height() const { return 1 + lines.size() + (note.empty() ? 0 : 1); }
  bool empty() const { return heading.empty(); }
};

std::string head_line(const TopView& view) {
  std::string state = view.away && view.asked ? "the broker does not answer" : "";
  if (view.status.draining) {
    state += (state.empty() ? "" : ", ") + std::string("draining");
  }
  if (view.status.paused) {
    state += (state.empty() ? "" : ", ") + std::string("all jobs are paused");
  }
  return "millrace top  " + view.clock + (view.frozen ? "  display stopped" : "") +
         (state.empty() ? "" : "  " + state) + "  " + printable_name(view.endpoint);
}

void add_totals(const TopView& view, std::size_t columns, std::vector<TopLine>& lines) {
  const JobCounts& counts = view.status.counts;
  lines.push_back(
      {joined({"queued " + grouped(counts.queued), "leased " + grouped(counts.leased),
               "completed " + grouped(counts.completed), "failed " + grouped(counts.failed),
               "cancelled " + grouped(counts.cancelled), "expired " + grouped(counts.expired)},
              columns)});
  double all = 0, prompts = 0, answers = 0;
  for (const EngineInfo& engine : view.status.engines) {
    all += engine.tokens_per_second;
    prompts += engine.prompt_tokens_per_second;
    answers += engine.completion_tokens_per_second;
  }
  std::vector<std::string> parts = {text("%.1f jobs/s", view.jobs_per_second),
                                    text("%.1f tokens/s", all)};
  if (view.seconds_left) {
    parts.push_back(duration_text(*view.seconds_left) + " left");
  }
  if (const auto oldest = oldest_ms(view.status)) {
    parts.push_back("oldest waits " + time_text_of(*oldest));
  }
  if (prompts + answers > 0) {
    parts.push_back(text("prompts %.1f/s", prompts));
    parts.push_back(text("answers %.1f/s", answers));
  }
  lines.push_back({joined(parts, columns)});
  if (!view.status.refuses.empty()) {
    lines.push_back({"new jobs are refused: " + printable_name(view.status.refuses)});
  }
}

std::string engine_state(const EngineInfo& engine) {
  if (engine.silent_ms >= silent_from_ms) {
    return "silent " + time_text_of(engine.silent_ms);
  }
  return engine.rows > 0 ? "computes" : (engine.leases > 0 ? "prepares" : "idle");
}

Section engines_of(const TopView& view, std::size_t columns) {
  if (view.status.engines.empty()) {
    return {view.asked ? "no engine: millrace-engine --model FILE starts one"
                       : "waiting for the broker",
            {},
            "engines",
            ""};
  }
  const FittedTable table({{"ENGINE", 10, 12, false, true},
                           {"MODEL", 10, 5, false, true},
                           {"POLICY", 6, 1, false},
                           {"ROWS", 7, 10},
                           {"WAIT", 5, 7},
                           {"KV", 5, 9},
                           {"KV TOKENS", 13, 2},
                           {"KV MEMORY", 19, 0},
                           {"CACHED", 6, 8},
                           {"PREFIX", 7, 3},
                           {"PROMPT/S", 9, 4},
                           {"ANSWER/S", 9, 4},
                           {"TOKENS/S", 9, 11},
                           {"STATE", 9, 6, false}},
                          columns);
  Section out{table.header(), {}, "engines", ""};
  for (const EngineInfo& engine : view.status.engines) {
    const EngineFacts& facts = engine.engine.facts;
    const EngineLoad& load = engine.load;
    const bool tells = load.kv_pool_tokens > 0;
    const std::string rows = std::to_string(engine.rows);
    out.lines.push_back(table.line(
        {printable_name(engine.name), printable_name(facts.model), printable_name(facts.kv_policy),
         load.max_rows == 0 ? rows : of_text(rows, std::to_string(load.max_rows)),
         grouped(load.waiting_jobs), share_text(load.kv_used_tokens, load.kv_pool_tokens),
         tells ? of_text(short_number(load.kv_used_tokens), short_number(load.kv_pool_tokens)) : "",
         load.kv_pool_bytes > 0
             ? of_text(size_text(load.kv_used_bytes), size_text(load.kv_pool_bytes))
             : "",
         share_text(load.cached_tokens, load.prompt_tokens),
         tells ? short_number(load.prefix_tokens) : "",
         text("%.1f", engine.prompt_tokens_per_second),
         text("%.1f", engine.completion_tokens_per_second), text("%.1f", engine.tokens_per_second),
         engine_state(engine)}));
  }
  return out;
}

Section queues_of(const TopView& view, std::size_t columns) {
  if (view.status.queues.empty()) {
    return {};
  }
  const FittedTable table({{"QUEUE OF", 12, 9, false, true},
                           {"QUEUED", 9, 8},
                           {"TOKENS", 7, 5},
                           {"LEASED", 7, 7},
                           {"TOKENS", 7, 3},
                           {"OLDEST WAITS", 12, 6},
                           {"STATE", 6, 4, false}},
                          columns);
  Section out{table.header(), {}, "tenants", ""};
  for (const TenantQueue& queue : view.status.queues) {
    out.lines.push_back(table.line(
        {printable_name(queue.tenant), grouped(queue.queued),
         queue.queued_tokens == 0 ? "" : short_number(queue.queued_tokens), grouped(queue.leased),
         queue.leased_tokens == 0 ? "" : short_number(queue.leased_tokens),
         queue.oldest_ms ? time_text_of(*queue.oldest_ms) : "", queue.paused ? "paused" : ""}));
  }
  if (view.status.more_queues) {
    out.note = "these are the first " + grouped(view.status.queues.size()) +
               " tenants by name; there are more";
  }
  return out;
}

std::string bar(std::uint64_t part, std::uint64_t whole) {
  const std::size_t full =
      whole == 0 ? bar_columns : static_cast<std::size_t>(part * bar_columns / whole);
  return "[" + std::string(full, '#') + std::string(bar_columns - full, '.') + "]";
}

Section batches_of(const TopView& view, std::size_t columns) {
  if (view.batches.empty() && !view.more_batches) {
    return {};
  }
  const FittedTable table({{"BATCH", 12, 9, false, true},
                           {"ENDED", 17, 7},
                           {"", bar_columns + 2, 2, false},
                           {"FAILED", 7, 4},
                           {"JOBS/S", 7, 3},
                           {"LEFT", 13, 6}},
                          columns);
  Section out{table.header(), {}, "that have not finished", ""};
  for (const BatchState& batch : view.batches) {
    const JobCounts& counts = batch.counts;
    const std::uint64_t open = counts.queued + counts.leased;
    const std::uint64_t ended =
        counts.completed + counts.failed + counts.cancelled + counts.expired;
    out.lines.push_back(table.line(
        {printable_name(batch.batch), of_text(std::to_string(ended), std::to_string(ended + open)),
         bar(ended, ended + open), std::to_string(counts.failed),
         text("%.1f", batch.jobs_per_second),
         batch.paused ? "paused"
                      : (batch.eta_s ? duration_text(static_cast<double>(*batch.eta_s)) : "")}));
  }
  if (view.more_batches) {
    out.note = "and perhaps more: the broker has over " + grouped(view.batches.size()) +
               " unfinished batches";
  }
  return out;
}

// Adds `gap` blank lines and the section in at most `room` lines, the blank ones included.
void add_section(const Section& section, std::size_t room, std::size_t gap, std::size_t scroll,
                 std::vector<TopLine>& lines) {
  if (section.empty() || room < gap + 1) {
    return;
  }
  lines.resize(lines.size() + gap);
  lines.push_back({section.heading, !section.lines.empty()});
  const std::size_t below = room - gap - 1;
  const std::size_t fit = below - std::min<std::size_t>(below, section.note.empty() ? 0 : 1);
  const std::size_t count = section.lines.size();
  const bool all = count <= fit && scroll == 0;
  const std::size_t shown = all ? count : fit - std::min<std::size_t>(fit, 1);
  const std::size_t first = std::min(scroll, count - std::min(count, shown));
  const std::size_t end = std::min(count, first + shown);
  for (std::size_t i = first; i < end; ++i) {
    lines.push_back({section.lines[i]});
  }
  if (!all && fit > 0) {
    const std::size_t hidden = count - (end - first);
    lines.push_back({first == 0 ? "and " + grouped(hidden) + " more " + section.what
                                : grouped(first + 1) + " to " + grouped(end) + " of " +
                                      grouped(count) + " " + section.what});
  }
  if (!section.note.empty() && below > 0) {
    lines.push_back({section.note});
  }
}

// A heading alone tells nothing: where not all have room for a line, the queues give way, and then
// the engines. Tab still shows them.
void leave_out_headings(std::size_t room, std::vector<Section>& sections) {
  constexpr std::size_t least = 2;  // the heading and a line
  for (const TopSection one : {TopSection::queues, TopSection::engines}) {
    const auto many = static_cast<std::size_t>(
        std::ranges::count_if(sections, [](const Section& section) { return !section.empty(); }));
    if (many > 1 && room < least * many) {
      sections[static_cast<std::size_t>(one) - 1] = {};
    }
  }
}

// Divides the lines between sections: each gets what it needs, or an equal share of what is left.
std::vector<std::size_t> shares_of(const std::vector<Section>& sections, std::size_t room,
                                   std::size_t gap) {
  std::vector<std::size_t> shares(sections.size(), 0);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    if (!sections[i].empty()) {
      order.push_back(i);
    }
  }
  std::ranges::sort(order, {}, [&](std::size_t i) { return sections[i].height(); });
  for (std::size_t at = 0; at < order.size(); ++at) {
    const std::size_t wanted = gap + sections[order[at]].height();
    const std::size_t share = std::min(wanted, room / (order.size() - at));
    shares[order[at]] = share;
    room -= share;
  }
  return shares;
}

}  // namespace

std::size_t section_lines(const TopView& view) {
  switch (view.section) {
    case TopSection::engines:
      return view.status.engines.size();
    case TopSection::queues:
      return view.status.queues.size();
    case TopSection::batches:
      return view.batches.size();
    case TopSection::all:
      break;
  }
  return 0;
}

std::optional<std::uint64_t> oldest_ms(const StatusAnswer& status) {
  std::optional<std::uint64_t> oldest;
  for (const TenantQueue& queue : status.queues) {
    if (queue.oldest_ms && (!oldest || *queue.oldest_ms > *oldest)) {
      oldest = queue.oldest_ms;
    }
  }
  return oldest;
}

std::vector<TopLine> top_frame(const TopView& view, std::size_t columns, std::size_t rows) {
  std::vector<TopLine> lines = {{head_line(view), true}};
  add_totals(view, columns, lines);
  std::vector<Section> sections = {engines_of(view, columns), queues_of(view, columns),
                                   batches_of(view, columns)};
  const std::size_t room = rows - std::min(rows, lines.size() + 1);  // above the keys
  if (view.section == TopSection::all) {
    leave_out_headings(room, sections);
    // In a low terminal a line of each section counts more than the blank lines between them.
    const auto drawn = std::ranges::count_if(sections, [](const Section& x) { return !x.empty(); });
    const std::size_t gap = room < 3 * static_cast<std::size_t>(drawn) ? 0 : 1;
    const std::vector<std::size_t> shares = shares_of(sections, room, gap);
    for (std::size_t i = 0; i < sections.size(); ++i) {
      add_section(sections[i], shares[i], gap, 0, lines);
    }
  } else {
    Section one = sections[static_cast<std::size_t>(view.section) - 1];
    if (one.empty()) {
      one.heading = view.section == TopSection::queues ? "no queue" : "no batch has jobs to do";
    }
    add_section(one, room, room < 3 ? 0 : 1, view.scroll, lines);
  }
  if (rows > 1) {
    lines.resize(std::min(lines.size(), rows - 1));
    lines.push_back(
        {joined({"q quit", "p stop or go on", "Tab next part", "up, down scroll"}, columns)});
  }
  lines.resize(std::min(lines.size(), rows));
  for (TopLine& line : lines) {
    line.text = cut(line.text, columns);
  }
  return lines;
}

}  // namespace millrace::client
