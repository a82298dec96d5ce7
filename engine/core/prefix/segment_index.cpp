#include "engine/core/prefix/segment_index.hpp"

#include <algorithm>
#include <utility>

namespace millrace::engine {

struct SegmentIndex::Node {
  std::map<Tokens, std::unique_ptr<Node>> children;
  Number segment = 0, state = 0;  // 0: the page, or the state after it, is in no segment
};

SegmentIndex::SegmentIndex(const PageKind& kind) : kind_(kind), root_(std::make_unique<Node>()) {}

SegmentIndex::~SegmentIndex() = default;

std::vector<SegmentIndex::Node*> SegmentIndex::walk(std::span<const TokenId> tokens) const {
  std::vector<Node*> path;
  Node* node = root_.get();
  for (; tokens.size() >= kind_.page_tokens; tokens = tokens.subspan(kind_.page_tokens)) {
    const auto page = tokens.first(kind_.page_tokens);
    const auto found = node->children.find(Tokens(page.begin(), page.end()));
    if (found == node->children.end()) break;
    node = found->second.get();
    path.push_back(node);
  }
  return path;
}

void SegmentIndex::use(const std::vector<Node*>& path) {
  for (std::size_t i = path.size(); i > 0; --i) {
    for (const Number number : {path[i - 1]->state, path[i - 1]->segment}) {
      if (number != 0) segments_.at(number).used = ++uses_;
    }
  }
}

std::uint32_t SegmentIndex::find(std::span<const TokenId> tokens, std::uint32_t known) {
  const std::vector<Node*> path = walk(tokens);
  use(path);
  for (std::uint32_t i = known; i < path.size(); ++i) {
    if (kind_.page_bytes > 0 && !readable(path[i]->segment)) break;
    if (kind_.state_bytes == 0 || readable(path[i]->state)) known = i + 1;
  }
  return known;
}

std::vector<SegmentIndex::Piece> SegmentIndex::pieces(std::span<const TokenId> tokens,
                                                      std::uint32_t first) const {
  const std::vector<Node*> path = walk(tokens);
  std::vector<Piece> out;
  for (std::uint32_t i = first; i < path.size() && kind_.page_bytes > 0; ++i) {
    const Number number = path[i]->segment;
    if (out.empty() || out.back().segment != number) {
      out.push_back({number, i - segments_.at(number).segment.first_page, 0});
    }
    ++out.back().count;
  }
  if (kind_.state_bytes > 0) out.push_back({path.back()->state, 0, 1, true});
  return out;
}

std::uint32_t SegmentIndex::first_missing(std::span<const TokenId> tokens) {
  const std::vector<Node*> path = walk(tokens);
  use(path);
  if (kind_.page_bytes == 0) return static_cast<std::uint32_t>(tokens.size() / kind_.page_tokens);
  const auto missing =
      std::ranges::find_if(path, [](const Node* node) { return node->segment == 0; });
  return static_cast<std::uint32_t>(missing - path.begin());
}

bool SegmentIndex::has_state(std::span<const TokenId> tokens) const {
  if (kind_.state_bytes == 0) return true;
  const std::vector<Node*> path = walk(tokens);
  const std::size_t pages = tokens.size() / kind_.page_tokens;
  return pages > 0 && path.size() == pages && path.back()->state != 0;
}

void SegmentIndex::add(Number number, const Segment& segment) {
  Node* node = root_.get();
  std::vector<Node*> path;
  const std::uint32_t page_tokens = kind_.page_tokens;
  const auto pages = static_cast<std::uint32_t>(segment.path.size() / page_tokens);
  for (std::uint32_t i = 0; i < pages; ++i) {
    const auto page = std::span(segment.path).subspan(std::size_t{i} * page_tokens, page_tokens);
    auto& child = node->children[Tokens(page.begin(), page.end())];
    if (child == nullptr) child = std::make_unique<Node>();
    node = child.get();
    if (i >= segment.first_page) node->segment = number;
    path.push_back(node);
  }
  if (segment.is_state()) node->state = number;
  const std::uint64_t bytes = segment_file_bytes(segment);
  segments_[number] = {segment, bytes, 0, false};
  bytes_ += bytes;
  use(path);
}

void SegmentIndex::add_foreign(Number number, std::uint64_t bytes) {
  segments_[number] = {{}, bytes, 0, true};
  bytes_ += bytes;
}

void SegmentIndex::remove(Number number) {
  const auto found = segments_.find(number);
  if (found == segments_.end()) return;
  const std::vector<Node*> path = walk(found->second.segment.path);
  for (Node* node : path) {
    if (node->segment == number) node->segment = 0;
    if (node->state == number) node->state = 0;
  }
  // Remove nodes that lead to no page any more, ends first.
  for (std::size_t i = path.size(); i > 0; --i) {
    const Node& node = *path[i - 1];
    if (node.segment != 0 || node.state != 0 || !node.children.empty()) break;
    Node* parent = i > 1 ? path[i - 2] : root_.get();
    std::erase_if(parent->children, [&](const auto& child) { return child.second.get() == &node; });
  }
  bytes_ -= found->second.bytes;
  segments_.erase(found);
}

std::set<SegmentIndex::Number> SegmentIndex::holders(std::span<const TokenId> tokens,
                                                     std::uint32_t pages) const {
  std::set<Number> out;
  for (const Node* node : walk(tokens.first(std::size_t{pages} * kind_.page_tokens))) {
    for (const Number number : {node->segment, node->state}) {
      if (number != 0) out.insert(number);
    }
  }
  return out;
}

std::optional<SegmentIndex::Number> SegmentIndex::oldest(const std::set<Number>& kept) const {
  std::optional<Number> out;
  std::uint64_t used = 0;
  for (const auto& [number, known] : segments_) {
    if (kept.contains(number) || (out && known.used >= used)) continue;
    out = number;
    used = known.used;
  }
  return out;
}

std::uint64_t SegmentIndex::bytes_of(const std::set<Number>& numbers) const {
  std::uint64_t out = 0;
  for (const Number number : numbers) out += segments_.at(number).bytes;
  return out;
}

}  // namespace millrace::engine
