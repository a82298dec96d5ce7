#pragma once
// What a thread with a broker session does for requests: it asks questions, follows jobs that were
// submitted to the face's stream, and tells their listeners what the engines say of them.
//
// The results come from one reader of the stream, which begins at its end. So a job has to be
// followed before it is submitted. A job that had ended before is looked up (find_result).
// Thread safety: one thread, that of the session.
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "client/link/event_loop.hpp"
#include "client/link/stream_reader.hpp"
#include "schemas/base/clock.hpp"

namespace millrace::http {

class Live;

// Each is called on the session's thread.
class JobListener {
 public:
  virtual ~JobListener() = default;
  virtual void on_partial(const PartialEntry& entry) = 0;
  virtual void on_end(const JobResult& result) = 0;  // the job is followed no longer
  virtual void on_failure(const Error& error) = 0;   // what becomes of the job is not known
  virtual void on_wait() {}                          // every ten seconds or so
};

class Desk final : public client::EventHandler, public client::EntrySink {
 public:
  Desk(client::Session& session, const Clock& clock, std::string stream);
  ~Desk() override;

  // Sends a question as soon as the session may have one more.
  using OnAnswer = std::function<void(Result<Message>)>;
  void ask(Message question, OnAnswer on_answer);
  // The same for one kind of answer.
  template <class Answer>
  void ask_for(Message question, std::function<void(Result<Answer>)> on_answer) {
    ask(std::move(question), [on_answer = std::move(on_answer)](Result<Message> answer) {
      if (!answer) return on_answer(std::unexpected(std::move(answer).error()));
      if (auto* wanted = std::get_if<Answer>(&*answer)) return on_answer(std::move(*wanted));
      on_answer(millrace::fail(Code::unexpected_message,
                               "the broker answered with another kind of message"));
    });
  }

  // Submits jobs, together with those of other requests. There is an answer for each job.
  using OnAnswers = std::function<void(Result<std::vector<SubmitAnswer>>)>;
  void submit(std::vector<Body> jobs, OnAnswers on_answers);
  // Tells the listener about the job until it ends, or until `until_us` of the monotonic clock.
  void follow(const std::string& job, std::shared_ptr<JobListener> listener, std::int64_t until_us);
  void unfollow(const std::string& job, const JobListener& listener);
  // Looks for the result of a job that had ended when it was submitted again.
  void find_result(const std::string& job);
  void cancel(std::vector<std::string> jobs);
  // What the live page asks for.
  Live& live();
  // The broker's state, at most a second old.
  void with_status(std::function<void(const Result<StatusAnswer>&)> use);

  const std::string& stream() const { return stream_; }
  bool asking() const { return !asked_.empty() || !to_ask_.empty() || !to_submit_.empty(); }
  bool following() const { return !followed_.empty(); }
  // The reader has read from where it begins, or it is known why it cannot. What is submitted
  // before waits for it.
  bool placed() const { return reading_ || no_reader_.has_value(); }
  const std::optional<Error>& no_reader() const { return no_reader_; }
  // The session is over: everyone who waits is told.
  void end(const Error& error);

  Status tick() override;
  void rang(const std::string& stream) override;
  Result<bool> take(Envelope& answer) override;
  Status on_entries(const std::vector<Entry>& entries) override;
  Status on_stream_error(Error error) override;

 private:
  struct Follower {
    std::shared_ptr<JobListener> listener;
    std::int64_t until_us;
  };
  struct Question {
    Message message;
    OnAnswer on_answer;
  };
  struct Submission {
    std::vector<Body> jobs;
    OnAnswers on_answers;
  };
  void send_questions();
  void send_submissions();
  void place();
  void give_up(Error error);
  void tell_end(const JobResult& result);
  void fail_followers(const std::string& job, const Error& error);
  void tell_waiting();

  client::Session& session_;
  const Clock& clock_;
  const std::string stream_;
  std::optional<client::StreamReader> reader_;
  std::optional<Error> no_reader_;  // for a second: a key may get the role that it lacks
  std::int64_t no_reader_us_ = 0;
  bool reading_ = false;                           // a fetch was answered
  bool placing_ = false, stale_ = false;           // it is being placed; it has to be placed anew
  std::multimap<std::string, Follower> followed_;  // by job
  std::deque<Question> to_ask_;
  std::deque<Submission> to_submit_;
  std::map<std::uint64_t, OnAnswer> asked_;  // by question
  std::optional<StatusAnswer> status_;
  std::int64_t status_us_ = 0, told_us_ = 0;
  std::uint32_t seconds_ = 0;
  std::unique_ptr<Live> live_;  // once it was asked for
  std::vector<std::function<void(const Result<StatusAnswer>&)>> status_users_;
};

}  // namespace millrace::http
