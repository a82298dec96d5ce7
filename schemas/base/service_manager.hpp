#pragma once
// Tells the service manager that started a program how far it is. systemd asks for it by
// $NOTIFY_SOCKET (Type=notify in the unit); without the variable nothing happens. Thread safety:
// reads the environment.
namespace millrace {

// The program serves now. Programs that are ordered after it may start.
void tell_ready();
// The program has begun to end.
void tell_stopping();

}  // namespace millrace
