#pragma once
// The flags `mode` of a matrix product, as host and device share them. C++ and OpenCL C both read
// this file.

#define MODE_ADDS 1u    // the product is added to what the output holds
#define MODE_BIASED 2u  // the bias is added to the product
