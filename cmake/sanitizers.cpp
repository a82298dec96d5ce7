// What the sanitizers are told, linked into each program of a build with MILLRACE_SANITIZE. Keep
// exceptions few, and say why each of them stands.
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

// An OpenCL driver is a library that has the loader's entry point and is not the loader.
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

}  // namespace

// Drivers keep memory until the process ends and hand out pointers that nobody can see: leaks are
// looked for at the end of every program that has not loaded one.
extern "C" int __lsan_is_turned_off() {
  return has_loaded_a_driver() ? 1 : 0;
}

// libzmq hands messages from thread to thread by atomic operations of its own, which
// ThreadSanitizer does not see in a library that it has not compiled: what is malloc'ed here and
// read there looks like a race. Passed over is what has a frame of the library in one of its two
// stacks; a race of our own memory has none.
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libzmq.so\n";
}
