#pragma once
// Functions in double that use only operations that IEEE 754 defines to the last bit, so that they
// give the same bits on every machine and with every C library. Thread safety: pure functions.

namespace millrace::engine {

double log_of(double x);  // natural logarithm of a normal x > 0
double exp_of(double x);  // |x| < 700

struct Turn {
  double cosine = 1, sine = 0;
};
Turn turn_by(double angle);  // 0 <= angle < 2^40

}  // namespace millrace::engine
