# make               build every tool into $(BUILD)/bin
# make setup         install what the build and the tests need (Debian, Ubuntu: root or sudo)
# make check         all tests; ends with "N passed, N failed"
# make check-asan    the same under the address and undefined-behaviour sanitizers
# make check-gpu     on a machine with a GPU: the CUDA tests there, speed and memory, as JSON; 8 minutes
# make check-fuzz    fuzz every reader of files, FUZZ_SECONDS=10 each; libFuzzer if clang has it
# make check-peers   are bpe-train and tok-encode equal to rustbpe and tiktoken (pip install rustbpe tiktoken)? minutes
# make check-large   both on GB=4 gigabytes from a pipe and on 100 MB without a space, in little memory; minutes
# make pretrain      DEPTH=4 RUN=runs/d4 DATA='a.txt b.jsonl': text to a base model, what is missing of it;
#                    VOCAB=32768 SEQ=2048 VAL=5 SPLIT=blank TRAIN='--hours 2 ...'
# make demo          the whole pipe on a small text made here: train a GPT, fine-tune it, reinforce it, talk to it
# make sft           RUN=model DATA=conversations.jsonl [OUT=RUN-sft]: fine-tune a model
# make rl            RUN=model PROMPTS=conversations.jsonl [VAL=...] [REWARD=filter] [STEPS=n] [OUT=RUN-rl]: reinforce it
# make chat          RUN=model (the demo's): talk to a model
# make bench         measure kernels and steps against this machine's own roof; JSON=1: as JSON Lines
# make install       PREFIX=/usr/local; DESTDIR is honoured
#
# OMP AMX CUDA NCCL MPI ZSTD SNAPPY CURL: auto (use it if it is there), 1 (it must be there), 0 (leave it out).
# CUDA_ARCHS: what nvcc compiles for: 80, 89, 90a, 100, 120, as far as it knows them (all, the default),
#                    or some of them: CUDA_ARCHS=80 takes a fourth of the time. Devices that are not among
#                    them run what is for the first or the last, compiled anew once.
# CUDNN=1: with cuDNN's attention too (0 is the default): see CUDNN_FRONTEND and CUDNN_HOME below.

ifneq ($(filter setup,$(MAKECMDGOALS)),)
# What setup installs decides how the rest is built: the other goals run after it, in a make of their own.
REST := $(filter-out setup,$(MAKECMDGOALS))
setup:
	@share/pipeline/setup.sh
$(REST): setup
	@+$(MAKE) --no-print-directory $@
.PHONY: setup $(REST)
.NOTPARALLEL:
else

TOOLS   := $(sort $(patsubst %/main.c,%,$(wildcard data-fetch/main.c bpe-train/main.c tok-encode/main.c \
             pack-rows/main.c gpt-train/main.c gpt-eval/main.c gpt-sample/main.c)))
PREFIX  ?= /usr/local
BUILD   ?= build
CC      ?= cc
CFLAGS  ?= -O2 -g
OMP     ?= auto
AMX     ?= auto
CUDA    ?= auto
NCCL    ?= auto
CUDNN   ?= 0
MPI     ?= auto
ZSTD    ?= auto
SNAPPY  ?= auto
CURL    ?= auto
VERSION := $(shell (git describe --tags --always --dirty 2>/dev/null || echo 0.1) | sed 's/^v//')
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith

# ---- what this machine has ------------------------------------------------
# A goal that builds nothing needs nothing.
ifeq ($(filter-out clean,$(or $(MAKECMDGOALS),all)),)
BUILDS_NOTHING := 1
else
ifeq ($(shell command -v pkg-config),)
$(error pkg-config is missing: try 'make setup')
endif
missing := $(strip $(foreach p,zlib libxxhash,$(if $(shell pkg-config --exists $(p) && echo y),,$(p))))
ifneq ($(missing),)
$(error missing: $(missing): try 'make setup', or see "Installing" in README.md)
endif
endif

comma := ,
# $(call want,NAME,command that prints something if it is there)
want = $(if $(filter 0,$($(1))),,$(or $(shell $(2)),$(if $(filter 1,$($(1))),$(error $(1)=1, but it is not here or cannot be used))))
have_omp    := $(call want,OMP,echo 'int main(void){return 0;}' | $(CC) -fopenmp -x c - -o /dev/null 2>/dev/null && echo yes)
# AMX: what the compiler knows; whether the processor has it is asked at run time.
AMX_FLAGS   := -mavx512bf16 -mamx-tile -mamx-bf16
have_amx    := $(call want,AMX,printf '\043include <immintrin.h>\nvoid f(void); void f(void) { _tile_dpbf16ps(0, 1, 2); }' | $(CC) $(AMX_FLAGS) -x c -c - -o /dev/null 2>/dev/null && echo yes)
have_zstd   := $(call want,ZSTD,pkg-config --exists libzstd && echo yes)
have_curl   := $(call want,CURL,pkg-config --exists "libcurl >= 7.85" && echo yes)
have_snappy := $(call want,SNAPPY,echo 'int main(void){return 0;}' | $(CC) -x c - -lsnappy -o /dev/null 2>/dev/null && echo yes)
# What mpicc (MPICH's, Open MPI's) would add to a command; without it, what pkg-config knows.
MPIWORDS    := $(if $(filter 0,$(MPI)),,$(shell mpicc -show 2>/dev/null || pkg-config --cflags --libs mpich 2>/dev/null || pkg-config --cflags --libs ompi-c 2>/dev/null))
MPI_CFLAGS  := $(patsubst -I%,-isystem %,$(filter -I%,$(MPIWORDS)))
MPI_LIBS    := $(filter -L% -l% -Wl%,$(MPIWORDS))
have_mpi    := $(call want,MPI,printf '\043include <mpi.h>\nint main(void) { return MPI_Finalize(); }' | $(CC) $(MPI_CFLAGS) -x c - -o /dev/null $(MPI_LIBS) 2>/dev/null && echo yes)
CUSRC       := $(wildcard lib/ops/cuda/*.cu)
have_cuda   := $(call want,CUDA,test -n "$(CUSRC)" && { command -v nvcc || ls /usr/local/cuda/bin/nvcc; } 2>/dev/null)
have_nccl   := $(if $(have_cuda),$(if $(have_mpi),$(call want,NCCL,ls $(dir $(have_cuda))../include/nccl.h /usr/include/nccl.h 2>/dev/null | head -n 1)))
# cuDNN's attention (lib/ops/cuda/cudnn.h). CUDNN_FRONTEND: the folder of cudnn_frontend.h, 1.32 or
# later; CUDNN_HOME: that of include/cudnn.h and lib/libcudnn.so.9, 9.26 or later.
CUDNN_HOME  ?= /usr
have_cudnn  := $(if $(filter 1,$(CUDNN)),$(or $(wildcard $(CUDNN_FRONTEND)/cudnn_frontend.h),$(error CUDNN=1: there is no cudnn_frontend.h in CUDNN_FRONTEND=$(CUDNN_FRONTEND)))$(if $(have_cuda),,$(error CUDNN=1 needs CUDA)))
CUDNN_LIBS  := $(if $(have_cudnn),$(if $(filter-out /usr,$(CUDNN_HOME)),-L$(CUDNN_HOME)/lib -Wl$(comma)-rpath$(comma)$(CUDNN_HOME)/lib )-l:libcudnn.so.9 -L$(dir $(have_cuda))../lib64 -Wl$(comma)-rpath$(comma)$(dir $(have_cuda))../lib64 -lnvrtc)
# The tests run CUDA's kernels on the CPU; a C++ compiler is all they need.
have_cxx    := $(if $(BUILDS_NOTHING),,$(shell echo 'int main() { return 0; }' | $(CXX) -std=c++17 -x c++ - -o /dev/null 2>/dev/null && echo yes))

BACKENDS := cpu$(if $(have_amx), amx)$(if $(have_omp), openmp)$(if $(have_mpi), mpi)$(if $(have_cuda), cuda)$(if $(have_nccl), nccl)$(if $(have_cudnn), cudnn)$(if $(have_zstd), zstd)$(if $(have_snappy), snappy)$(if $(have_curl), curl)
PKGS     := zlib libxxhash$(if $(have_zstd), libzstd)$(if $(have_curl), libcurl)
BASEFLAGS := -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -Ilib $(WARN) $(if $(BUILDS_NOTHING),,$(shell pkg-config --cflags $(PKGS)))
ALL_CFLAGS = $(BASEFLAGS)$(if $(have_zstd), -DHAVE_ZSTD)$(if $(have_snappy), -DHAVE_SNAPPY)$(if $(have_curl), -DHAVE_CURL)$(if $(have_mpi), -DHAVE_MPI)$(if $(have_cuda), -DHAVE_CUDA)$(if $(have_nccl), -DHAVE_NCCL)$(if $(have_cudnn), -DHAVE_CUDNN) -MMD -MP $(CFLAGS) $(if $(have_omp),-fopenmp,-Wno-unknown-pragmas)
# What a tool does not use it does not load: that is a fifth of a millisecond each time for each library.
LDLIBS   := -Wl,--as-needed $(if $(BUILDS_NOTHING),,$(shell pkg-config --libs $(PKGS))$(if $(have_snappy), -lsnappy))$(if $(have_cudnn), $(CUDNN_LIBS))$(if $(have_cuda), -L$(CUDA_HOME)/lib64 -lcudart_static -ldl -lrt -lstdc++)$(if $(have_mpi), $(MPI_LIBS)) -lm -lpthread
AMX_DEFS := $(if $(have_amx),-DHAVE_AMX)
VERDEFS   = -DVERSION='"$(VERSION)"' -DBACKENDS='"$(BACKENDS)"' -DBUILD_CFLAGS='"$(CFLAGS)"'

$(BUILD)/lib/ops/comm_mpi.o $(BUILD)/f64/lib/ops/comm_mpi.o: ALL_CFLAGS += $(MPI_CFLAGS)

# ---- the library ----------------------------------------------------------
# lib/ops/cpu is compiled once per tier, chosen at run time, and what sees activations once more with
# bfloat16 ones; lib/ops and lib/gpt also once more with real = double (libgpt64.a), for tests that
# need exact arithmetic.
ARCH     := $(shell $(CC) -dumpmachine | cut -d- -f1)
TIERS    := base $(if $(filter x86_64,$(ARCH)),avx2 avx512)
TIER_base   :=
TIER_avx2   := -mavx2 -mfma
TIER_avx512 := $(TIER_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512
KERNEL   := -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math

PLAIN    := $(wildcard lib/base/*.c lib/text/*.c lib/data/*.c)
REALSRC  := $(wildcard lib/ops/*.c lib/gpt/*.c)
CPUSRC   := $(wildcard lib/ops/cpu/*.c)
ACTSRC   := $(filter-out %/mem.c %/optim.c %/muon.c %/probe.c,$(CPUSRC))
DOTSRC   := $(ACTSRC) $(filter %/muon.c %/probe.c,$(CPUSRC))
TILESRC  := $(filter %/gemm.c %/linear.c %/moe.c %/muon.c %/elem.c %/probe.c %/table.c,$(CPUSRC))
OBJ      := $(PLAIN:%.c=$(BUILD)/%.o) $(REALSRC:%.c=$(BUILD)/%.o) \
            $(foreach t,$(TIERS),$(CPUSRC:%.c=$(BUILD)/%.$(t).o) $(ACTSRC:%.c=$(BUILD)/%.$(t).bf16.o)) \
            $(if $(filter avx512,$(TIERS)),$(DOTSRC:%.c=$(BUILD)/%.avx512.dot.o)) \
            $(if $(have_amx),$(TILESRC:%.c=$(BUILD)/%.avx512.tile.o))
# The same with AMX's instructions in plain C, for tests: tiers base_twin and avx512_twin
TWINOBJ  := $(filter-out %/muon.base.twin.o %/probe.base.twin.o,$(foreach t,$(filter-out avx2,$(TIERS)),$(TILESRC:%.c=$(BUILD)/%.$(t).twin.o)))
LIBTWIN  := $(BUILD)/libtwin.a
# lib/ops/cuda: each file once with float Acts and once with bfloat16 ones, but CUDA_ONCE, which know
# of none. $(call cuda_objects,FOLDER): the objects' names.
CUDA_ONCE := mem.c graph.c nccl.c plans.c sort.cu sum.cu optim.cu pick.cu fp8.c fp8.cu $(notdir $(wildcard lib/ops/cuda/gemm.c))
CUDA_FILES := $(notdir $(wildcard lib/ops/cuda/*.c) $(CUSRC))
cuda_objects = $(addprefix $(1)/lib/ops/cuda/,$(patsubst %,%.o,$(CUDA_ONCE)) \
               $(foreach f,$(filter-out $(CUDA_ONCE),$(CUDA_FILES)),$(f).fp32.o $(f).bf16.o))
NVCC       := $(have_cuda)
CUDA_ARCHS ?= all
nvcc_knows := $(if $(NVCC),$(shell $(NVCC) --list-gpu-code))
archs      := $(if $(filter all,$(CUDA_ARCHS)),$(foreach a,80 89 90a 100 120,$(if $(filter sm_$(a:a=),$(nvcc_knows)),$(a))),$(CUDA_ARCHS))
CUDA_HOME  := $(patsubst %/bin/nvcc,%,$(if $(NVCC),$(realpath $(NVCC))))
NVFLAGS    := -std=c++17 -O3 -lineinfo -Ilib $(foreach a,$(archs),-gencode arch=compute_$(a),code=sm_$(a)) \
              $(foreach a,$(sort $(firstword $(archs)) $(lastword $(archs))),-gencode arch=compute_$(a),code=compute_$(a)) -Xcompiler -Wall,-Wextra,-Wno-unused-function
OBJ      += $(if $(have_cuda),$(call cuda_objects,$(BUILD)))$(if $(have_cudnn), $(BUILD)/lib/ops/cuda/cudnn.cpp.o)
OBJ64    := $(PLAIN:%.c=$(BUILD)/%.o) $(REALSRC:%.c=$(BUILD)/f64/%.o) \
            $(foreach t,$(TIERS),$(CPUSRC:%.c=$(BUILD)/f64/%.$(t).o))
LIB      := $(BUILD)/libgpt.a
LIB64    := $(BUILD)/libgpt64.a
BIN      := $(TOOLS:%=$(BUILD)/bin/%)

all: $(BIN)
	@echo "built for: $(BACKENDS)$(if $(have_cuda),, (no CUDA: $(if $(filter 0,$(CUDA)),CUDA=0,no nvcc)))$(if $(filter x86_64,$(ARCH)),$(if $(have_amx),, (no AMX: $(if $(filter 0,$(AMX)),AMX=0,the compiler does not know it))))"

# What objects were made with; they are made again when it changes. What --version says, only opt.o.
FLAGS    := $(CC) $(ALL_CFLAGS) $(KERNEL) $(LDFLAGS)
$(BUILD)/flags: FORCE
	@mkdir -p $(@D); echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' > $@
$(BUILD)/version: FORCE
	@mkdir -p $(@D); echo '$(BACKENDS) $(VERSION) $(PREFIX)' | cmp -s - $@ || \
	  echo '$(BACKENDS) $(VERSION) $(PREFIX)' > $@
FORCE:

$(BUILD)/lib/base/opt.o: ALL_CFLAGS += $(VERDEFS)
$(BUILD)/lib/base/opt.o $(BUILD)/lib/ops/ops.o $(BUILD)/emu/lib/ops/ops.c.o: $(BUILD)/version
$(BUILD)/lib/ops/ops.o $(BUILD)/emu/lib/ops/ops.c.o: ALL_CFLAGS += $(AMX_DEFS)
$(BUILD)/tests/bench/% $(BUILD)/tests/ops/%: private ALL_CFLAGS += $(AMX_DEFS)

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(BUILD)/f64/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -DREAL_F64 -c -o $@ $<

define tier
$(BUILD)/lib/ops/cpu/%.$(1).o: lib/ops/cpu/%.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) $$(KERNEL) $$(TIER_$(1)) -DTIER=$(1) -c -o $$@ $$<
$(BUILD)/lib/ops/cpu/%.$(1).bf16.o: lib/ops/cpu/%.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) $$(KERNEL) $$(TIER_$(1)) -DTIER=$(1) -DACT_BF16 -c -o $$@ $$<
$(BUILD)/lib/ops/cpu/%.$(1).dot.o: lib/ops/cpu/%.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) $$(KERNEL) $$(TIER_$(1)) -mavx512bf16 -DTIER=$(1) -DACT_BF16 -DACT_DOT -c -o $$@ $$<
$(BUILD)/lib/ops/cpu/%.$(1).tile.o: lib/ops/cpu/%.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) $$(KERNEL) $$(TIER_$(1)) $$(AMX_FLAGS) -DTIER=$(1) -DACT_BF16 -DACT_DOT -DACT_TILE=tile -c -o $$@ $$<
$(BUILD)/lib/ops/cpu/%.$(1).twin.o: lib/ops/cpu/%.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) $$(KERNEL) $$(TIER_$(1)) $(if $(filter avx512,$(1)),-mavx512bf16 -DACT_DOT) -DTIER=$(1) -DACT_BF16 -DACT_TILE=twin -DTILE_TWIN -c -o $$@ $$<
$(BUILD)/f64/lib/ops/cpu/%.$(1).o: lib/ops/cpu/%.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) $$(KERNEL) $$(TIER_$(1)) -DTIER=$(1) -DREAL_F64 -c -o $$@ $$<
endef
$(foreach t,$(TIERS),$(eval $(call tier,$(t))))

# ---- CUDA, and the same files for the emulator, which tests/cuda links before the library
$(BUILD)/lib/ops/cuda/%.fp32.o $(BUILD)/lib/ops/cuda/%.bf16.o $(BUILD)/lib/ops/cuda/%.o: ALL_CFLAGS += -isystem $(CUDA_HOME)/include
cuflag = $(if $(findstring .bf16.o,$@),-DACT_BF16)
# attention: exp2f in one instruction
$(BUILD)/lib/ops/cuda/attn%.o: NVFLAGS += -ftz=true
$(BUILD)/lib/ops/cuda/attn.cu.bf16.o: NVFLAGS += $(if $(have_cudnn),-DHAVE_CUDNN)
$(BUILD)/lib/ops/cuda/cudnn.cpp.o: lib/ops/cuda/cudnn.cpp $(BUILD)/flags
	@mkdir -p $(@D)
	$(CXX) -std=c++17 -O1 -Ilib -Wall -Wextra -Wno-unused-function -isystem $(CUDNN_FRONTEND) $(if $(filter-out /usr,$(CUDNN_HOME)),-isystem $(CUDNN_HOME)/include )-isystem $(CUDA_HOME)/include -MMD -MP -c -o $@ $<
define cuda
$(BUILD)/lib/ops/cuda/%.c$(1).o: lib/ops/cuda/%.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) $$(cuflag) -c -o $$@ $$<
$(BUILD)/lib/ops/cuda/%.cu$(1).o: lib/ops/cuda/%.cu $(BUILD)/nvflags
	@mkdir -p $$(@D)
	$$(NVCC) $$(NVFLAGS) -Xptxas -v $$(cuflag) -MMD -MP -MF $$(@:.o=.d) -MT $$@ -c -o $$@ $$< 2> $$(@:.o=.ptxas) || { cat $$(@:.o=.ptxas) >&2; exit 1; }
	@grep -vE 'ptxas info|bytes stack frame' $$(@:.o=.ptxas) >&2 || true
$(BUILD)/emu/lib/ops/cuda/%.c$(1).o: lib/ops/cuda/%.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(CC) -Itests/emulator $$(ALL_CFLAGS) $$(cuflag) -c -o $$@ $$<
$(BUILD)/emu/lib/ops/cuda/%.cu$(1).o: lib/ops/cuda/%.cu $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(CXX) $$(EMUFLAGS) $$(cuflag) -x c++ -c -o $$@ $$<
endef
$(foreach a,.fp32 .bf16,$(eval $(call cuda,$(a))))
$(eval $(call cuda,))
$(BUILD)/nvflags: FORCE
	@mkdir -p $(@D); echo '$(NVCC) $(NVFLAGS)' | cmp -s - $@ || echo '$(NVCC) $(NVFLAGS)' > $@

EMUFLAGS  = -std=c++17 -D_GNU_SOURCE -Ilib -Itests/emulator -Wall -Wextra -Wshadow -Wno-unused-function \
            -MMD -MP $(CFLAGS) $(if $(have_omp),-fopenmp,-Wno-unknown-pragmas)
EMUOBJ   := $(filter-out %/gemm.c.o,$(call cuda_objects,$(BUILD)/emu)) $(patsubst %,$(BUILD)/emu/%.o,$(wildcard tests/emulator/*.cpp tests/emulator/*.c)) \
            $(BUILD)/emu/lib/ops/ops.c.o $(BUILD)/emu/lib/ops/comm.c.o
LIBEMU   := $(BUILD)/emu/libemu.a
$(BUILD)/emu/tests/emulator/%.cpp.o: tests/emulator/%.cpp $(BUILD)/flags
	@mkdir -p $(@D)
	$(CXX) $(EMUFLAGS) -c -o $@ $<
$(BUILD)/emu/tests/emulator/%.c.o: tests/emulator/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) -Itests/emulator $(ALL_CFLAGS) $(KERNEL) -c -o $@ $<
$(BUILD)/emu/lib/ops/ops.c.o: ALL_CFLAGS += -UHAVE_CUDA -DHAVE_CUDA
$(BUILD)/emu/lib/ops/cuda/nccl.c.o $(BUILD)/emu/lib/ops/comm.c.o: ALL_CFLAGS += -UHAVE_NCCL -DHAVE_NCCL
$(BUILD)/emu/lib/ops/ops.c.o $(BUILD)/emu/lib/ops/comm.c.o: $(BUILD)/emu/%.c.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c -o $@ $<
$(LIBEMU): $(EMUOBJ)
	@rm -f $@
	$(AR) rcs $@ $^

$(LIB): $(OBJ)
	@rm -f $@
	$(AR) rcs $@ $^
$(LIB64): $(OBJ64)
	@rm -f $@
	$(AR) rcs $@ $^
$(LIBTWIN): $(TWINOBJ)
	@rm -f $@
	$(AR) rcs $@ $^

define tool
$(BUILD)/bin/$(1): $(patsubst %.c,$(BUILD)/%.o,$(wildcard $(1)/*.c)) $(LIB)
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) $$(LDFLAGS) -o $$@ $$^ $$(LDLIBS)
endef
$(foreach t,$(TOOLS),$(eval $(call tool,$(t))))

# ---- tests ----------------------------------------------------------------
# tests/{unit,ops,golden}/*.c print TAP; those that say REAL_F64 anywhere are built and run twice,
# with real = float and real = double. tests/cuda/*.c are linked with the emulated CUDA back-end.
CTESTS   := $(wildcard tests/unit/*.c tests/ops/*.c tests/golden/*.c)
CTESTS64 := $(if $(CTESTS),$(shell grep -l REAL_F64 $(CTESTS)))
# $(BUILD)/emu/bin has the tools that compute, with the emulated back-end.
EMUBIN   := $(if $(have_cxx),$(addprefix $(BUILD)/emu/bin/,gpt-train gpt-sample gpt-eval))
$(BUILD)/emu/bin/%: $(BUILD)/bin/% $(LIBEMU)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $(patsubst %.c,$(BUILD)/%.o,$(wildcard $*/*.c)) -Wl,--whole-archive $(LIBEMU) -Wl,--no-whole-archive $(LIB) $(LDLIBS) -lstdc++
# lt.c: what calls cublasLt, with a library in its place; needs NVIDIA's headers, not its compiler.
LT_INC   := $(dir $(firstword $(wildcard $(CUDA_HOME)/include/cublasLt.h /usr/local/cuda/include/cublasLt.h)))
LT_MAJOR := $(if $(LT_INC),$(shell sed -n 's/^\#define CUBLAS_VER_MAJOR *//p' $(LT_INC)cublas_api.h))
CUTESTS  := $(if $(have_cxx),$(filter-out $(if $(LT_INC),,tests/cuda/lt.c),$(wildcard tests/cuda/*.c)))
CTBIN    := $(CTESTS:%.c=$(BUILD)/%) $(CTESTS64:%.c=$(BUILD)/f64/%) $(CUTESTS:%.c=$(BUILD)/%)
SHTESTS  := $(wildcard tests/cli/*.sh tests/pipe/*.sh tests/bad/*.sh tests/docs/*.sh tests/cuda/*.sh)

LT_NAMES := -Dcuda_gemm=lt_gemm -DcudaEventCreate=lt_event_create -DcudaEventDestroy=lt_event_destroy \
            -DcudaEventRecord=lt_event_record -DcudaEventSynchronize=lt_event_synchronize -DcudaEventElapsedTime=lt_event_elapsed
$(BUILD)/tests/cuda/lt: private LDFLAGS += $(BUILD)/emu/lt.o -DLT_VERSION='"$(LT_MAJOR)"'
$(BUILD)/tests/cuda/lt: $(BUILD)/emu/lt.o $(BUILD)/tests/cuda/libcublasLt.so.$(LT_MAJOR)
$(BUILD)/emu/lt.o: lib/ops/cuda/gemm.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(LT_NAMES) -isystem $(LT_INC) -c -o $@ $<
$(BUILD)/tests/cuda/libcublasLt.so.%: tests/emulator/lt/cublasLt.c
	@mkdir -p $(@D)
	$(CC) $(BASEFLAGS) $(CFLAGS) $(KERNEL) -isystem $(LT_INC) -fPIC -shared -Wl,-soname,$(@F) -o $@ $< -lm
$(BUILD)/tests/cuda/%: tests/cuda/%.c $(LIBEMU) $(LIB)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Itests -Itests/emulator $(LDFLAGS) -o $@ $< -Wl,--whole-archive $(LIBEMU) -Wl,--no-whole-archive $(LIB) $(LDLIBS) -lstdc++
$(BUILD)/tests/%: tests/%.c $(LIB)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Itests $(LDFLAGS) -o $@ $< $(LIB) $(LDLIBS)
$(BUILD)/tests/ops/%: tests/ops/%.c $(LIBTWIN) $(LIB)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Itests $(LDFLAGS) -o $@ $< $(LIBTWIN) $(LIB) $(LDLIBS)
$(BUILD)/f64/tests/%: tests/%.c $(LIB64)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -DREAL_F64 -Itests $(LDFLAGS) -o $@ $< $(LIB64) $(LDLIBS)

$(BUILD)/tests/unit/cudnn: $(if $(have_cudnn),$(BUILD)/tests/unit/libcuda.so.1)
$(BUILD)/tests/unit/libcuda.so.1: tests/emulator/driver/libcuda.c
	@mkdir -p $(@D)
	$(CC) $(BASEFLAGS) $(CFLAGS) -fPIC -shared -Wl,-soname,$(@F) -o $@ $<

# programs of the tests; measuring ones are tried out there too, two of them with the emulated back-end
BENCH    := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/bench/*.c))
HELPERS  := $(addprefix $(BUILD)/tests/,fetch/server parquet/write peak) $(BENCH)
EMUBENCH := $(if $(have_cxx),$(addprefix $(BUILD)/emu/tests/bench/,ops decode))
$(BUILD)/emu/tests/bench/%: tests/bench/%.c $(LIBEMU) $(LIB)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Itests $(LDFLAGS) -o $@ $< -Wl,--whole-archive $(LIBEMU) -Wl,--no-whole-archive $(LIB) $(LDLIBS) -lstdc++
check: $(BIN) $(CTBIN) $(EMUBIN) $(EMUBENCH) $(HELPERS)
	@BUILD="$(abspath $(BUILD))" PATH="$(abspath $(BUILD))/bin:$$PATH" tests/run $(CTBIN) $(SHTESTS)

# tests/cuda/*.c again, for a GPU in place of the emulator
GPUBIN   := $(if $(have_cuda),$(patsubst %.c,$(BUILD)/gpu/%,$(wildcard tests/cuda/*.c)))
$(BUILD)/gpu/tests/cuda/%: tests/cuda/%.c tests/cuda/on_device.h $(LIB)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Itests -I$(CUDA_HOME)/include -include tests/cuda/on_device.h $(LDFLAGS) -o $@ $< $(LIB) $(LDLIBS)
check-gpu: $(BIN) $(GPUBIN) $(addprefix $(BUILD)/tests/bench/,ops decode)
	@BUILD="$(abspath $(BUILD))" PATH="$(abspath $(BUILD))/bin:$$PATH" tests/gpu.sh

# T=tests/unit/json.c, T=tests/cli/tok-encode.sh, ...: one test, its whole output
check-one: $(BIN) $(HELPERS) $(if $(filter tests/cuda/%.sh,$(T)),$(EMUBIN) $(EMUBENCH)) $(if $(filter %.c,$(T)),$(T:%.c=$(BUILD)/%))
	BUILD="$(abspath $(BUILD))" PATH="$(abspath $(BUILD))/bin:$$PATH" $(if $(filter %.c,$(T)),$(T:%.c=$(BUILD)/%),sh $(T))

# The kernels at -O1, since instrumented unrolled loops take a compiler minutes at -O3.
SANITIZE := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
check-asan:
	@+$(MAKE) --no-print-directory BUILD=$(BUILD)/asan CUDA=0 CFLAGS="$(SANITIZE)" \
	  KERNEL="$(subst -O3,-O1,$(KERNEL))" check

# tests/fuzz/NAME.c is linked with driver.c (plain mutation) and, where clang can, with libFuzzer.
FUZZ_SECONDS ?= 10
FUZZ     := $(filter-out tests/fuzz/driver.c,$(wildcard tests/fuzz/*.c))
FUZZBIN  := $(FUZZ:%.c=$(BUILD)/%)
LIBTEXT  := $(BUILD)/libtext.a
WRAP     := -Wl,--wrap=die,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=free
guarded   = $(if $(shell grep -lE '"(file|guard|toks|rows)\.h"' $<),$(WRAP))
$(LIBTEXT): $(PLAIN:%.c=$(BUILD)/%.o)
	@rm -f $@
	$(AR) rcs $@ $^
$(FUZZBIN): $(BUILD)/%: %.c tests/fuzz/driver.c $(wildcard tests/fuzz/*.h) $(LIBTEXT)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Itests/fuzz $(LDFLAGS) -o $@ $< tests/fuzz/driver.c $(LIBTEXT) $(guarded) $(LDLIBS)
$(FUZZBIN:=.lf): $(BUILD)/%.lf: %.c $(wildcard tests/fuzz/*.h) $(LIBTEXT)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -fsanitize=fuzzer -Itests/fuzz $(LDFLAGS) -o $@ $< $(LIBTEXT) $(guarded) $(LDLIBS)
fuzz-run: $(FUZZBIN) $(if $(LIBFUZZER),$(FUZZBIN:=.lf))
	@tests/fuzz/run $(FUZZ_SECONDS) $(FUZZBIN)
check-fuzz:
	@echo 'int LLVMFuzzerTestOneInput(const char *s, long n); int LLVMFuzzerTestOneInput(const char *s, long n) { return s && n < 0; }' | \
	  clang -fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null && \
	  set -- CC=clang LIBFUZZER=1 CFLAGS="$(SANITIZE) -fsanitize=fuzzer-no-link" || set -- CFLAGS="$(SANITIZE)"; \
	$(MAKE) --no-print-directory BUILD=$(BUILD)/fuzz OMP=0 CUDA=0 "$$@" fuzz-run

TOKBIN   := $(BUILD)/bin/bpe-train $(BUILD)/bin/tok-encode
check-peers: $(TOKBIN)
	@if python3 -c 'import rustbpe, tiktoken' 2>/dev/null; then PATH="$(abspath $(BUILD))/bin:$$PATH" tests/bench/peers.sh; \
	else echo "check-peers # SKIP not installed (python3, rustbpe, tiktoken)"; fi
check-large: $(TOKBIN)
	@PATH="$(abspath $(BUILD))/bin:$$PATH" tests/bench/large.sh $(GB)

demo: $(BIN)
	@BUILD="$(abspath $(BUILD))" PATH="$(abspath $(BUILD))/bin:$$PATH" share/demo/demo.sh

sft: $(BIN)
	@[ -n "$(RUN)" ] && [ -n "$(DATA)" ] || { echo "make sft RUN=model DATA=conversations.jsonl [OUT=...]" >&2; exit 2; }
	@PATH="$(abspath $(BUILD))/bin:$$PATH" share/pipeline/sft.sh "$(RUN)" "$(DATA)" $(if $(OUT),"$(OUT)")

rl: $(BIN)
	@[ -n "$(RUN)" ] && [ -n "$(PROMPTS)" ] || { echo "make rl RUN=model PROMPTS=conversations.jsonl [VAL=...] [REWARD=filter] [STEPS=n] [OUT=...]" >&2; exit 2; }
	@PATH="$(abspath $(BUILD))/bin:$$PATH" REWARD="$(REWARD)" share/pipeline/rl.sh "$(RUN)" "$(PROMPTS)" "$(or $(OUT),$(RUN)-rl)" \
	  $(if $(VAL),--val "$(VAL)") $(if $(STEPS),--steps $(STEPS))

chat: RUN ?= $(BUILD)/demo/rl
chat: $(BIN)
	@[ -f "$(RUN)/config.json" ] || { echo "$(RUN): no model here: make demo, or RUN=model" >&2; exit 1; }
	@$(BUILD)/bin/gpt-sample -m "$(RUN)" --chat

# DATA is expanded by the shell, relative to here.
pretrain: $(BIN)
	@$(if $(and $(DEPTH),$(RUN),$(DATA)),true,false) || { echo "make pretrain DEPTH=n RUN=folder DATA='files' [VOCAB=n] [SEQ=n] [VAL=percent] [SPLIT=how] [TRAIN='options']" >&2; exit 2; }
	@PATH="$(abspath $(BUILD))/bin:$$PATH" share/pipeline/pretrain $(if $(DEPTH),--depth $(DEPTH)) \
	  $(if $(RUN),--run "$(RUN)") $(if $(VOCAB),--vocab $(VOCAB)) $(if $(SEQ),--seq-len $(SEQ)) \
	  $(if $(VAL),--val $(VAL)) $(if $(SPLIT),--split "$(SPLIT)") $(if $(TRAIN),--train "$(TRAIN)") $(DATA)

# DOCS=FILE.jsonl: also the tokenizer, against rustbpe and tiktoken where they are installed.
# TEXT=FILE: also a small GPT trained on that text, and fp32 beside bf16. JSON=1: operations and steps as JSON Lines.
bench: $(BIN) $(BENCH) $(BUILD)/tests/parquet/write
	@for d in fp32 bf16; do for j in 1 0; do for m in '--depth 12' '--depth 6' '--model minimind-moe' '--chunk 1024 linear'; do \
	  $(BUILD)/tests/bench/ops --dtype $$d -j $$j -t 0.1 $$m $(if $(JSON),--json) || exit 1; done; done; done
	@for d in fp32 bf16; do for m in '--depth 12 -T 1024 -B 4' '--depth 6 -T 512 -B 8'; do \
	  $(BUILD)/tests/bench/train --rounds 1 --dtype $$d $$m $(if $(JSON),--json) || exit 1; done; done
	@PATH="$(abspath $(BUILD))/bin:$$PATH"; export PATH; set -e; \
	$(if $(JSON),,BUILD="$(abspath $(BUILD))" tests/bench/data-fetch.sh 3;) \
	if [ -n "$(DOCS)" ]; then tests/bench/bpe-train.sh "$(DOCS)"; \
	  bpe-train -q -v 32768 -o "$(BUILD)/bench.tok" "$(DOCS)"; tests/bench/tok-encode.sh "$(BUILD)/bench.tok" "$(DOCS)"; \
	  tests/bench/cjk.sh; fi; \
	if [ -n "$(TEXT)" ]; then tests/bench/book.sh "$(TEXT)"; tests/bench/dtype.sh "$(TEXT)"; fi

# ---- installation ---------------------------------------------------------
MAN1     := $(wildcard $(TOOLS:%=%/*.1))
MAN5     := $(wildcard share/man/*.5)
MAN7     := $(wildcard share/man/*.7)
install: $(BIN)
	install -d $(addprefix $(DESTDIR)$(PREFIX)/,bin share/man/man1 share/man/man5 share/man/man7)
	install $(BIN) $(DESTDIR)$(PREFIX)/bin
	install -d $(DESTDIR)$(PREFIX)/share/pipegpt/tasks
	install share/tasks/* $(DESTDIR)$(PREFIX)/share/pipegpt/tasks
	install -d $(DESTDIR)$(PREFIX)/share/pipegpt/pipeline
	install share/pipeline/pretrain share/pipeline/sft.sh share/pipeline/rl.sh share/pipeline/speedrun.sh share/pipeline/plot $(DESTDIR)$(PREFIX)/share/pipegpt/pipeline
	install -d $(DESTDIR)$(PREFIX)/share/pipegpt/reward
	install share/reward/* $(DESTDIR)$(PREFIX)/share/pipegpt/reward
	install -d $(DESTDIR)$(PREFIX)/share/pipegpt/data
	install -m 644 share/data/* $(DESTDIR)$(PREFIX)/share/pipegpt/data
	install -d $(DESTDIR)$(PREFIX)/share/pipegpt/configs
	install -m 644 share/configs/*.conf $(DESTDIR)$(PREFIX)/share/pipegpt/configs
	install -m 644 $(MAN1) $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 $(MAN5) $(DESTDIR)$(PREFIX)/share/man/man5
	install -m 644 $(MAN7) $(DESTDIR)$(PREFIX)/share/man/man7

uninstall:
	rm -f $(patsubst share/%,$(DESTDIR)$(PREFIX)/share/pipegpt/%,$(wildcard share/tasks/* share/reward/* share/configs/* share/data/*) share/pipeline/pretrain share/pipeline/sft.sh share/pipeline/rl.sh share/pipeline/speedrun.sh share/pipeline/plot)
	rm -f $(TOOLS:%=$(DESTDIR)$(PREFIX)/bin/%)
	cd $(DESTDIR)$(PREFIX)/share/man/man1 && rm -f $(notdir $(MAN1))
	cd $(DESTDIR)$(PREFIX)/share/man/man5 && rm -f $(notdir $(MAN5))
	cd $(DESTDIR)$(PREFIX)/share/man/man7 && rm -f $(notdir $(MAN7))

clean:
	rm -rf $(BUILD)

-include $(OBJ:.o=.d) $(EMUOBJ:.o=.d) $(BUILD)/emu/lt.d $(OBJ64:.o=.d) $(TWINOBJ:.o=.d) $(CTBIN:=.d) $(GPUBIN:=.d) $(BENCH:=.d) $(EMUBENCH:=.d) $(foreach t,$(TOOLS),$(patsubst %.c,$(BUILD)/%.d,$(wildcard $(t)/*.c)))
.PHONY: all check check-one check-gpu check-asan check-fuzz check-peers check-large fuzz-run demo pretrain sft rl chat bench install uninstall clean FORCE
.SECONDARY:
.DELETE_ON_ERROR:
endif
