// The exceptions of the sanitizers. A build with MILLRACE_SANITIZE links this file into every
// program. Keep exceptions few, and give the reason of each.
#include <dlfcn.h>
#include <link.h>

#include <string>
#include <vector>

extern "C" int __lsan_is_turned_off();
extern "C" const char* __tsan_default_suppressions();

namespace {

int add_name(dl_phdr_info* info, std::size_t, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(info->dlpi_name);
  return 0;
}

// Returns whether the process has loaded an OpenCL driver: a library that is not the OpenCL loader
// and has the entry point that the loader calls.
bool has_loaded_a_driver() {
  std::vector<std::string> names;
  dl_iterate_phdr(add_name, &names);
  for (const std::string& name : names) {
    if (name.empty() || name.find("libOpenCL.so") != std::string::npos) continue;
    void* const library = dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    const bool driver = dlsym(library, "clGetExtensionFunctionAddress") != nullptr;
    dlclose(library);
    if (driver) return true;
  }
  return false;
}

// Looks when the program's own destructors run. The leak check itself may come after those of the
// libraries, when to open one again would call its constructors again.
bool loaded_a_driver = false;
struct Look {
  ~Look() { loaded_a_driver = has_loaded_a_driver(); }
} look;

}  // namespace

// Turns the leak check off in programs that have loaded a driver: drivers keep memory until the
// process ends, and keep pointers where the check does not find them.
extern "C" int __lsan_is_turned_off() {
  return loaded_a_driver ? 1 : 0;
}

// libzmq passes messages from thread to thread by atomic operations of its own. ThreadSanitizer
// does not see them, because libzmq is not compiled with it, and reports memory that one thread
// allocates and another reads as a race. This suppresses reports that have a frame of libzmq in one
// of their two stacks; races on our own memory have none. libsodium decrypts messages for libzmq.
// The last one is for what libzmq calls through code of ours: strings that it makes, such as the
// user of a connection, grow in the program's copy of std::string.
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libzmq.so\ncalled_from_lib:libsodium.so\nrace:libzmq.so\n";
}
