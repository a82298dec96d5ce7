#pragma once
// One connection of a load to a broker: hello, then questions and answers in one thread.
// Errors end the program: a load that a broker refuses has measured nothing.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bench/must.hpp"
#include "schemas/base/net/poller.hpp"
#include "schemas/base/net/socket.hpp"
#include "schemas/messages.hpp"

namespace millrace::bench {

struct Place {
  std::string endpoint;
  std::string key;  // file of the key; empty: the broker has none
};

Hello client_hello();
double seconds_now();
double percentile(std::vector<double> values, double p);  // p from 0 to 1

class Link {
 public:
  // Connects and waits for the broker's welcome.
  Link(net::Context& context, const Place& place, const Hello& hello);

  const Welcome& welcome() const { return welcome_; }
  std::uint64_t send(Message message);  // returns the id that the answer will carry
  std::optional<Envelope> receive();    // none: nothing has arrived
  Envelope next();                      // waits; ends the program after a minute of silence
  void wait(std::int64_t timeout_ms);   // until something has arrived, or the time has passed
  const net::Socket& socket() const { return socket_; }

  // Asks one question and waits for its answer, dropping what comes unasked.
  template <class Answer>
  Answer ask(Message message) {
    const auto id = send(std::move(message));
    while (true) {
      Envelope answer = next();
      if (answer.id != id) continue;
      if (auto* wanted = std::get_if<Answer>(&answer.message)) return std::move(*wanted);
      die("the broker answered with another kind of message");
    }
  }

 private:
  net::Socket socket_;
  std::unique_ptr<net::Poller> poller_ = std::make_unique<net::Poller>();
  std::uint64_t next_id_ = 1;
  Welcome welcome_;
};

}  // namespace millrace::bench
