#pragma once
// The format of bytes (layout.cl), where a program names none.
#ifndef CODES
#define CODES 9
#define OFFSET 0
#define AFFINE 0
#define CODE_LEVELS 0
#define SCALE_SIZE 0
#define SCALE_BLOCK 32
#endif
