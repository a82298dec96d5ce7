#pragma once
// The groups of the plain products: the 16 rows of a panel by GROUP_COLUMNS columns.
#ifndef GROUP_COLUMNS
#define GROUP_COLUMNS 8
#endif
