#pragma once
// The live page at `/`: its files, which browsers ask for again only if they have changed.
// Thread safety: pure functions.
#include "http/routes.hpp"

namespace millrace::http {

// "/" is index.html, and "/page/NAME" the other files.
void add_page_routes(Routes& routes);

}  // namespace millrace::http
