// A program that only compiles for others, as the engine does when it starts itself for that.
#include "engine/core/device/helper_program.hpp"

int main(int argc, char** argv) {
  if (argc != 2 || argv[1] != millrace::engine::program_helper_flag) return 2;
  return millrace::engine::run_program_helper();
}
