// What every Cap'n Proto header of this folder needs before it: capnp 0.9.2 compares a const char* with a kj::StringPtr
// by an operator that clang in C++20 and later no longer finds. Given to the compiler by -include, since the compiler
// of schemas writes its own #include lines.
#pragma once
#include <kj/string.h>

#if defined(__clang__) && !defined(KJ_HAS_COROUTINE)
namespace kj {
inline bool operator==(const char* a, const StringPtr& b) { return b == StringPtr(a); }
inline bool operator!=(const char* a, const StringPtr& b) { return !(b == StringPtr(a)); }
}  // namespace kj
#endif
