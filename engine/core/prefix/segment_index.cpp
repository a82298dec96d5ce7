#include "engine/core/prefix/segment_index.hpp"

#include <algorithm>
#include <utility>

namespace millrace::engine {

struct SegmentIndex::Node {
  std::map<Tokens, std::unique_ptr<Node>> children;
  Number segment = 0;  // 0: the page is in no segment
};

SegmentIndex::SegmentIndex(std::uint32_t page_tokens)
    : page_tokens_(page_tokens), root_(std::make_unique<Node>()) {}

SegmentIndex::~SegmentIndex() = default;

std::vector<SegmentIndex::Node*> SegmentIndex::walk(std::span<const TokenId> tokens) const {
  std::vector<Node*> path;
  Node* node = root_.get();
  for (; tokens.size() >= page_tokens_; tokens = tokens.subspan(page_tokens_)) {
    const auto page = tokens.first(page_tokens_);
    const auto found = node->children.find(Tokens(page.begin(), page.end()));
    if (found == node->children.end()) break;
    node = found->second.get();
    path.push_back(node);
  }
  return path;
}

void SegmentIndex::use(const std::vector<Node*>& path) {
  for (std::size_t i = path.size(); i > 0; --i) {
    if (path[i - 1]->segment != 0) segments_.at(path[i - 1]->segment).used = ++uses_;
  }
}

std::vector<SegmentIndex::Piece> SegmentIndex::find(std::span<const TokenId> tokens,
                                                    std::uint32_t first) {
  const std::vector<Node*> path = walk(tokens);
  use(path);
  std::vector<Piece> pieces;
  for (std::size_t i = first; i < path.size(); ++i) {
    const Number number = path[i]->segment;
    if (number == 0 || !segments_.at(number).readable) break;
    if (pieces.empty() || pieces.back().segment != number) {
      const auto skip = static_cast<std::uint32_t>(i) - segments_.at(number).segment.first_page;
      pieces.push_back({number, skip, 0});
    }
    ++pieces.back().count;
  }
  return pieces;
}

std::uint32_t SegmentIndex::first_missing(std::span<const TokenId> tokens) {
  const std::vector<Node*> path = walk(tokens);
  use(path);
  const auto missing =
      std::ranges::find_if(path, [](const Node* node) { return node->segment == 0; });
  return static_cast<std::uint32_t>(missing - path.begin());
}

void SegmentIndex::add(Number number, const Segment& segment) {
  Node* node = root_.get();
  std::vector<Node*> path;
  const auto pages = static_cast<std::uint32_t>(segment.path.size() / page_tokens_);
  for (std::uint32_t i = 0; i < pages; ++i) {
    const auto page = std::span(segment.path).subspan(std::size_t{i} * page_tokens_, page_tokens_);
    auto& child = node->children[Tokens(page.begin(), page.end())];
    if (child == nullptr) child = std::make_unique<Node>();
    node = child.get();
    if (i >= segment.first_page) node->segment = number;
    path.push_back(node);
  }
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
  }
  // Remove nodes that lead to no page any more, ends first.
  for (std::size_t i = path.size(); i > 0; --i) {
    if (path[i - 1]->segment != 0 || !path[i - 1]->children.empty()) break;
    Node* parent = i > 1 ? path[i - 2] : root_.get();
    std::erase_if(parent->children,
                  [&](const auto& child) { return child.second.get() == path[i - 1]; });
  }
  bytes_ -= found->second.bytes;
  segments_.erase(found);
}

std::set<SegmentIndex::Number> SegmentIndex::holders(std::span<const TokenId> tokens,
                                                     std::uint32_t pages) const {
  std::set<Number> out;
  for (const Node* node : walk(tokens.first(std::size_t{pages} * page_tokens_))) {
    if (node->segment != 0) out.insert(node->segment);
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
