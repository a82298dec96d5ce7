#include "http/exchange.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "schemas/base/clock.hpp"

namespace millrace::http {

void Inbox::post(std::shared_ptr<Exchange> exchange) {
  const std::scoped_lock lock(mutex_);
  if (!wake_) return;
  waiting_.push_back(std::move(exchange));
  if (woken_) return;  // whoever was woken takes this one, too
  if (WakeOnce::current != nullptr) return WakeOnce::current->add(shared_from_this());
  woken_ = true;
  wake_();
}

void Inbox::wake() {
  const std::scoped_lock lock(mutex_);
  if (!wake_ || woken_ || waiting_.empty()) return;
  woken_ = true;
  wake_();
}

std::vector<std::shared_ptr<Exchange>> Inbox::take() {
  const std::scoped_lock lock(mutex_);
  // An exchange that changes from now on is posted again.
  for (const auto& exchange : waiting_) exchange->posted_ = false;
  woken_ = false;
  return std::exchange(waiting_, {});
}

void Inbox::close() {
  const std::scoped_lock lock(mutex_);
  wake_ = nullptr;
  waiting_.clear();
}

thread_local WakeOnce* WakeOnce::current = nullptr;

WakeOnce::WakeOnce() : outer_(std::exchange(current, this)) {}

void WakeOnce::add(std::shared_ptr<Inbox> inbox) {
  if (to_wake_.empty() || to_wake_.back() != inbox) to_wake_.push_back(std::move(inbox));
}

WakeOnce::~WakeOnce() {
  current = outer_;
  for (const auto& inbox : to_wake_) inbox->wake();
}

Exchange::Exchange(Request request, std::shared_ptr<Inbox> inbox, QueueBounds bounds)
    : request_(std::move(request)), inbox_(std::move(inbox)), bounds_(bounds) {}

Exchange::~Exchange() {
  inbox_->let_go(request_.body.size());
}

void Exchange::add_to_body(const char* data, std::size_t bytes) {
  request_.body.append(data, bytes);
  inbox_->hold(bytes);
}

std::string Exchange::take_body() {
  inbox_->let_go(request_.body.size());
  return std::exchange(request_.body, {});
}

std::shared_ptr<FormReader> Exchange::take_form() {
  return std::exchange(form_, nullptr);
}

void Exchange::post() {
  if (!posted_.exchange(true)) inbox_->post(shared_from_this());
}

void Exchange::respond(Response response) {
  {
    const std::scoped_lock lock(mutex_);
    if (gone_ || phase_ != Phase::waiting) return;
    response_ = std::move(response);
    phase_ = Phase::responded;
  }
  post();
}

void Exchange::begin_stream(Response head) {
  {
    const std::scoped_lock lock(mutex_);
    if (gone_ || phase_ != Phase::waiting) return;
    response_ = std::move(head);
    phase_ = Phase::streaming;
  }
  post();
}

bool Exchange::takes_more() const {
  if (queue_.size() - read_ > bounds_.most_bytes) return false;
  return over_us_ < 0 || SystemClock().monotonic_us() - over_us_ < bounds_.wait_ms * us_per_ms;
}

bool Exchange::write(std::string_view bytes) {
  {
    const std::scoped_lock lock(mutex_);
    if (gone_ || phase_ != Phase::streaming) return false;
    if (!takes_more()) return false;
    if (read_ > 0 && queue_.size() + bytes.size() > queue_.capacity()) {
      queue_.erase(0, std::exchange(read_, 0));
    }
    queue_ += bytes;
    if (over_us_ < 0 && queue_.size() - read_ > bounds_.bytes) {
      over_us_ = SystemClock().monotonic_us();
    }
  }
  post();
  return true;
}

void Exchange::end() {
  {
    const std::scoped_lock lock(mutex_);
    if (gone_ || phase_ != Phase::streaming) return;
    phase_ = Phase::ended;
  }
  post();
}

void Exchange::abort() {
  {
    const std::scoped_lock lock(mutex_);
    if (gone_ || phase_ == Phase::responded) return;
    phase_ = Phase::aborted;
    queue_ = {};
    read_ = 0;
  }
  post();
}

bool Exchange::answered() const {
  const std::scoped_lock lock(mutex_);
  return phase_ != Phase::waiting;
}

bool Exchange::gone() const {
  const std::scoped_lock lock(mutex_);
  return gone_;
}

void Exchange::on_gone(std::function<void()> callback) {
  {
    const std::scoped_lock lock(mutex_);
    if (!gone_) {
      on_gone_ = std::move(callback);
      return;
    }
  }
  callback();
}

long Exchange::read(char* to, std::size_t most) {
  const std::scoped_lock lock(mutex_);
  if (gone_ || phase_ == Phase::aborted) return cut_off;
  const std::size_t bytes = std::min(most, queue_.size() - read_);
  if (bytes == 0) return phase_ == Phase::ended ? at_end : wait_for_more;
  std::memcpy(to, queue_.data() + read_, bytes);
  read_ += bytes;
  if (queue_.size() - read_ <= bounds_.bytes) over_us_ = -1;
  if (read_ == queue_.size()) {
    read_ = 0;
    queue_.clear();
  }
  return static_cast<long>(bytes);
}

void Exchange::leave() {
  std::function<void()> callback;
  {
    const std::scoped_lock lock(mutex_);
    if (gone_) return;
    gone_ = true;
    queue_ = {};
    read_ = 0;
    callback = std::exchange(on_gone_, nullptr);
  }
  if (callback) callback();
}

void Exchange::refuse(Response response) {
  std::function<void()> callback;
  {
    const std::scoped_lock lock(mutex_);
    if (gone_ || phase_ != Phase::waiting) return;
    response_ = std::move(response);
    phase_ = Phase::responded;
    callback = std::exchange(on_gone_, nullptr);
  }
  if (callback) callback();
}

void Exchange::finish() {
  std::function<void()> unused;
  const std::scoped_lock lock(mutex_);
  unused = std::exchange(on_gone_, nullptr);  // its captures end after the lock
}

}  // namespace millrace::http
