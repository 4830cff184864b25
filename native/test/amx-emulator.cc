// A library that tests preload on processors without AMX: it catches the illegal-instruction signal of each tile
// instruction and does in software what Intel's manual says it does. The addon looks for `svc_amx_emulator`.

#include <immintrin.h>
#include <signal.h>
#include <ucontext.h>

#include <cstdint>
#include <cstring>

extern "C" __attribute__((visibility("default"))) const int svc_amx_emulator = 1;

namespace {

constexpr int kTiles = 8;
constexpr int kMaxRows = 16;
constexpr int kMaxRowBytes = 64;

struct Tile {
  int rows;
  int rowBytes;
  alignas(64) uint8_t data[kMaxRows][kMaxRowBytes];
};

/// Of this thread. Preloaded libraries may use the static model, which needs no allocation inside a signal handler.
thread_local __attribute__((tls_model("initial-exec"))) Tile tiles[kTiles];

/// The rounding of the tile unit: denormals are zero, whatever the program has set.
class TileRounding {
 public:
  TileRounding() : saved_(_mm_getcsr()) { _mm_setcsr(0x9fc0); }
  ~TileRounding() { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
};

void loadConfig(const uint8_t* memory) {
  std::memset(tiles, 0, sizeof tiles);
  if (memory[0] == 0) return;
  for (int i = 0; i < kTiles; ++i) {
    uint16_t rowBytes;
    std::memcpy(&rowBytes, memory + 16 + 2 * i, 2);
    tiles[i].rowBytes = rowBytes;
    tiles[i].rows = memory[48 + i];
  }
}

void zero(Tile& tile) { std::memset(tile.data, 0, sizeof tile.data); }

void loadTile(Tile& tile, const uint8_t* memory, int64_t stride) {
  zero(tile);
  for (int row = 0; row < tile.rows; ++row) std::memcpy(tile.data[row], memory + row * stride, tile.rowBytes);
}

void storeTile(const Tile& tile, uint8_t* memory, int64_t stride) {
  for (int row = 0; row < tile.rows; ++row) std::memcpy(memory + row * stride, tile.data[row], tile.rowBytes);
}

float wide(const uint8_t* bf16) {
  uint16_t half;
  std::memcpy(&half, bf16, 2);
  const uint32_t bits = uint32_t{half} << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// c += a · b in pairs of bf16: even and odd columns are summed apart, then added to c.
void multiply(Tile& c, const Tile& a, const Tile& b) {
  const TileRounding rounding;
  const int columns = c.rowBytes / 4;
  for (int m = 0; m < c.rows; ++m) {
    float even[kMaxRowBytes / 4] = {}, odd[kMaxRowBytes / 4] = {};
    for (int k = 0; k < a.rowBytes / 4; ++k) {
      for (int n = 0; n < columns; ++n) {
        even[n] += wide(a.data[m] + 4 * k) * wide(b.data[k] + 4 * n);
        odd[n] += wide(a.data[m] + 4 * k + 2) * wide(b.data[k] + 4 * n + 2);
      }
    }
    for (int n = 0; n < columns; ++n) {
      float sum;
      std::memcpy(&sum, c.data[m] + 4 * n, 4);
      sum += even[n] + odd[n];
      std::memcpy(c.data[m] + 4 * n, &sum, 4);
    }
  }
}

/// c += a · b, unsigned bytes of a times signed bytes of b, in fours.
void multiplyBytes(Tile& c, const Tile& a, const Tile& b) {
  for (int m = 0; m < c.rows; ++m) {
    for (int n = 0; n < c.rowBytes / 4; ++n) {
      int32_t sum;
      std::memcpy(&sum, c.data[m] + 4 * n, 4);
      for (int k = 0; k < a.rowBytes / 4; ++k) {
        for (int i = 0; i < 4; ++i) sum += a.data[m][4 * k + i] * static_cast<int8_t>(b.data[k][4 * n + i]);
      }
      std::memcpy(c.data[m] + 4 * n, &sum, 4);
    }
  }
}

/// General registers in the order of their numbers in instructions.
constexpr int kRegisters[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

/// A three-byte-VEX instruction of the map 0F38 without immediate.
struct Instruction {
  int prefix;  // 0 none, 1 66, 2 F3, 3 F2
  int opcode;
  int mod;
  int reg;
  int rm;
  int vvvv;
  uint8_t* base;   // address without the index
  int64_t index;   // scaled
  int length;
};

int64_t signedAt(const uint8_t* bytes, int size) {
  if (size == 1) return static_cast<int8_t>(*bytes);
  int32_t value;
  std::memcpy(&value, bytes, 4);
  return value;
}

/// Fills in the operand in memory; `at` is behind the ModRM byte. Returns the bytes that it takes.
int decodeMemory(Instruction& in, const uint8_t* at, bool extendIndex, bool extendBase, const greg_t* registers) {
  int used = 0, baseNumber = in.rm;
  if (in.rm == 4) {
    const int sib = at[used++];
    const int indexNumber = ((sib >> 3) & 7) | (extendIndex ? 8 : 0);
    if (indexNumber != 4) in.index = registers[kRegisters[indexNumber]] << (sib >> 6);
    baseNumber = sib & 7;
  }
  const bool hasNoBase = in.mod == 0 && baseNumber == 5;
  int64_t address = 0;
  if (!hasNoBase) address = registers[kRegisters[baseNumber | (extendBase ? 8 : 0)]];
  const int displacement = in.mod == 1 ? 1 : in.mod == 2 || hasNoBase ? 4 : 0;
  if (displacement > 0) address += signedAt(at + used, displacement);
  used += displacement;
  // Without SIB byte and base the displacement counts from the next instruction.
  if (hasNoBase && in.rm == 5) address += reinterpret_cast<int64_t>(at + used);
  in.base = reinterpret_cast<uint8_t*>(address);
  return used;
}

bool decode(const uint8_t* code, const greg_t* registers, Instruction& in) {
  constexpr int kVex = 0xc4, kMap0F38 = 2;
  if (code[0] != kVex || (code[1] & 31) != kMap0F38 || (code[2] & 0x84) != 0) return false;
  in = {};
  in.prefix = code[2] & 3;
  in.vvvv = (~code[2] >> 3) & 15;
  in.opcode = code[3];
  in.mod = code[4] >> 6;
  in.reg = (code[4] >> 3) & 7;
  in.rm = code[4] & 7;
  in.length = 5;
  if (in.mod != 3) {
    in.length += decodeMemory(in, code + 5, (code[1] & 0x40) == 0, (code[1] & 0x20) == 0, registers);
  }
  return true;
}

/// A tile that the loaded shapes leave out is an illegal operand.
bool isShaped(int tile) { return tiles[tile].rows > 0 && tiles[tile].rowBytes > 0; }

bool execute(const Instruction& in) {
  const bool isMemory = in.mod != 3;
  const bool isProduct = in.opcode == 0x5c || in.opcode == 0x5e;
  if (in.opcode != 0x49 && !isShaped(in.reg)) return false;
  if (isProduct && (!isShaped(in.rm) || !isShaped(in.vvvv))) return false;
  if (in.opcode == 0x49 && in.prefix == 0 && isMemory) loadConfig(in.base);
  else if (in.opcode == 0x49 && in.prefix == 0) std::memset(tiles, 0, sizeof tiles);
  else if (in.opcode == 0x49 && in.prefix == 3 && !isMemory) zero(tiles[in.reg]);
  else if (in.opcode == 0x4b && in.prefix == 2) storeTile(tiles[in.reg], in.base, in.index);
  else if (in.opcode == 0x4b && isMemory) loadTile(tiles[in.reg], in.base, in.index);
  else if (in.opcode == 0x5e && in.prefix == 1) multiplyBytes(tiles[in.reg], tiles[in.rm], tiles[in.vvvv]);
  else if (in.opcode == 0x5c && in.prefix == 2) multiply(tiles[in.reg], tiles[in.rm], tiles[in.vvvv]);
  else return false;
  return true;
}

void onIllegalInstruction(int, siginfo_t*, void* context) {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  // Those that follow at once, too: a signal takes longer than most of them.
  const greg_t first = registers[REG_RIP];
  Instruction in;
  while (decode(reinterpret_cast<const uint8_t*>(registers[REG_RIP]), registers, in) && execute(in)) {
    registers[REG_RIP] += in.length;
  }
  // Not ours: let it happen again without a handler.
  if (registers[REG_RIP] == first) signal(SIGILL, SIG_DFL);
}

__attribute__((constructor)) void install() {
  struct sigaction action = {};
  action.sa_sigaction = onIllegalInstruction;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGILL, &action, nullptr);
}

}  // namespace
