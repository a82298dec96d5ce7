#include "schemas/keys/key_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <string_view>
#include <system_error>

#include "schemas/base/env.hpp"
#include "schemas/base/net/endpoint_list.hpp"
#include "schemas/base/net/socket.hpp"
#include "schemas/keys/grants.hpp"

namespace millrace {
namespace {

constexpr std::size_t file_bytes = 4096;
constexpr std::size_t list_bytes = 16 * 1024 * 1024;

std::string reason() {
  return std::generic_category().message(errno);
}

// An open file, so that what is checked is what is read.
struct Opened {
  int descriptor = -1;
  ~Opened() {
    if (descriptor >= 0) ::close(descriptor);
  }
};

// Reads a file that belongs to this user, or to root, and that others may not access in the ways of
// `forbidden`, a mask of mode bits. A file of root's the group may read.
Result<std::string> read_private(const std::string& path, mode_t forbidden, const char* danger,
                                 std::size_t max_bytes) {
  const Opened file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.descriptor < 0) {
    return fail(errno == ENOENT ? Code::not_found : Code::io_error,
                "cannot open " + path + ": " + reason(), "make it with `millrace keys`");
  }
  struct stat info {};
  if (::fstat(file.descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    return fail(Code::usage, path + " is not a file", "name a file of `millrace keys`");
  }
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return fail(Code::unauthorized,
                path + " belongs to another user (" + std::to_string(info.st_uid) + ")",
                "use a file of your own");
  }
  // Where a file of root's is read by somebody else, root has chosen the group that may read it. So
  // Kubernetes mounts secrets.
  const bool given = info.st_uid == 0 && ::geteuid() != 0;
  if ((info.st_mode & (given ? forbidden & ~mode_t{S_IRGRP} : forbidden)) != 0) {
    return fail(Code::unauthorized, path + ": others may " + danger + " it",
                "chmod 600 " + path + "; if others have used it, make a new key");
  }
  std::string text(max_bytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.descriptor, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(Code::io_error, "cannot read " + path + ": " + reason());
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > max_bytes) {
    return fail(Code::too_large, path + " has more than " + std::to_string(max_bytes) + " bytes",
                "name a file of `millrace keys`");
  }
  text.resize(size);
  return text;
}

std::unexpected<Error> no_key_file(const std::string& path, const std::string& why) {
  return fail(Code::usage, path + " is not a usable key file: " + why,
              "make one with `millrace keys new`");
}

// Puts the value of one line where it belongs. False: it belongs nowhere.
bool take_line(std::string_view line, KeyPair& key) {
  const std::size_t space = line.find(' ');
  if (space == line.npos) return false;
  const std::string_view name = line.substr(0, space), value = line.substr(space + 1);
  std::string* const place = name == "public"   ? &key.public_key
                             : name == "secret" ? &key.secret_key
                             : name == "broker" ? &key.broker_key
                                                : nullptr;
  if (place == nullptr || !place->empty() || value.size() != public_key_bytes) return false;
  *place = value;
  return true;
}

Status check_halves(const std::string& path, const KeyPair& key) {
  std::array<char, public_key_bytes + 1> public_key{};
  if (::zmq_curve_public(public_key.data(), key.secret_key.c_str()) != 0) {
    return no_key_file(path, "the secret half has characters that no key has");
  }
  if (key.public_key != public_key.data()) {
    return no_key_file(path, "its halves do not belong together");
  }
  if (auto known = check_public_key(key.public_key); !known) {
    Error error = known.error();
    error.message = path + ": " + error.message;
    return fail(std::move(error));
  }
  return key.broker_key.empty() ? Status() : check_public_key(key.broker_key);
}

}  // namespace

KeyPair new_key_pair() {
  std::array<char, public_key_bytes + 1> public_key{}, secret_key{};
  if (::zmq_curve_keypair(public_key.data(), secret_key.data()) != 0) throw std::bad_alloc();
  return {public_key.data(), secret_key.data(), {}};
}

Status write_key_file(const std::string& path, const KeyPair& key) {
  const auto env = posix_env();
  MILLRACE_ASSIGN(const bool there, env->exists(path));
  if (there) {
    return fail(Code::conflict, path + " exists", "name another file, or remove this one");
  }
  std::string text =
      "# A key of Millrace. Whoever has this file acts in its owner's name: keep it to yourself.\n"
      "public " +
      key.public_key + "\nsecret " + key.secret_key + "\n";
  if (!key.broker_key.empty()) text += "broker " + key.broker_key + "\n";
  MILLRACE_ASSIGN(auto file, env->open(path, OpenMode::create_new));
  MILLRACE_TRY(file->append(text));
  return file->sync();
}

Result<KeyPair> read_key_file(const std::string& path) {
  MILLRACE_ASSIGN(const std::string text, read_private(path, 0077, "read or write", file_bytes));
  KeyPair key;
  std::string_view rest = text;
  for (int number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty() || line.front() == '#') continue;
    // The line is not shown: it may hold the secret.
    if (!take_line(line, key)) {
      return no_key_file(path, "line " + std::to_string(number) + " is malformed");
    }
  }
  if (key.public_key.empty() || key.secret_key.empty()) {
    return no_key_file(path, "a half of the key is missing");
  }
  MILLRACE_TRY(check_halves(path, key));
  return key;
}

Result<KeyPair> read_client_key(const std::string& path) {
  MILLRACE_ASSIGN(auto key, read_key_file(path));
  if (!key.broker_key.empty()) return key;
  return fail(Code::usage, path + " does not say which broker it is for",
              "add a line \"broker PUBLIC-KEY\" with the key that `millrace keys ls` shows as the "
              "broker's");
}

Result<KeyPair> key_for(const std::string& path, const std::string& endpoint) {
  if (!path.empty()) return read_client_key(path);
  const net::EndpointList endpoints(endpoint);
  const auto strange = std::ranges::find_if(endpoints.all(), [](const std::string& one) {
    return one.starts_with("tcp://") && !net::is_loopback(one);
  });
  if (strange == endpoints.all().end()) return KeyPair();
  return fail(Code::unauthorized,
              *strange +
                  " is on another machine, and no key is given: nobody would know who "
                  "listens there",
              std::string("give --key FILE or set ") + key_variable +
                  "; `millrace keys new` makes the file");
}

Result<std::string> read_allowed(const std::string& folder) {
  return read_private(folder + "/" + allowed_file, 0022, "write", list_bytes);
}

}  // namespace millrace
