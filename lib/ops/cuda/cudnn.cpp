/* cudnn.cpp -- cuDNN's attention, by way of NVIDIA's header-only cudnn-frontend, which no other file
 * here needs. A head's rows lie H D apart as in ops.h, lse T H, and cuDNN is told so by strides.
 *
 * cuDNN's left bound counts the query's own token, our window the tokens before it: window + 1. Its lse
 * is ours, the natural logarithm of the sum of exp(q k / sqrt(D)).
 */
#include "ops/cuda/cudnn.h"
extern "C" {
#define _Noreturn [[noreturn]]
#include "base/err.h"
}
#include <cudnn_frontend.h>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace fe = cudnn_frontend;
typedef std::shared_ptr<fe::graph::Tensor_attributes> Tensor;

struct CudnnPlan { fe::graph::Graph graph; int64_t workspace = 0; };

/* [B,T,heads,D] as cuDNN names its dimensions: B, heads, T, D */
static Tensor &lay_out(Tensor &t, const CudnnShape &s, int uid, int heads, int D)
{
    const int64_t T = s.T, h = heads, d = D;
    t->set_uid(uid).set_dim({ s.B, h, T, d }).set_stride({ T * h * d, d, h * d, 1 });
    t->set_data_type(uid == CUDNN_LSE ? fe::DataType_t::FLOAT : fe::DataType_t::BFLOAT16);
    return t;
}
static Tensor input(fe::graph::Graph &g, const CudnnShape &s, int uid, int heads, int D)
{
    Tensor t = g.tensor(fe::graph::Tensor_attributes());
    return lay_out(t, s, uid, heads, D);
}
static void output(Tensor t, const CudnnShape &s, int uid, int heads, int D)
{
    lay_out(t, s, uid, heads, D)->set_output(true);
}
template <class Attributes> static Attributes masked(const char *name, const CudnnShape &s)
{
    Attributes a;
    a.set_name(name).set_attn_scale(1 / std::sqrt((float)s.D));
    a.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
    if (s.window > 0 && s.window < s.T - 1) a.set_diagonal_band_left_bound(s.window + 1);
    return a;
}
static void describe(fe::graph::Graph &g, const CudnnShape &s, int backward)
{
    g.set_io_data_type(fe::DataType_t::BFLOAT16);
    g.set_intermediate_data_type(fe::DataType_t::FLOAT).set_compute_data_type(fe::DataType_t::FLOAT);
    Tensor q = input(g, s, CUDNN_Q, s.H, s.D), k = input(g, s, CUDNN_K, s.K, s.D),
           v = input(g, s, CUDNN_V, s.K, s.D);
    if (!backward) {
        auto a = masked<fe::graph::SDPA_attributes>("attn", s);
        a.set_generate_stats(true);
        auto out = g.sdpa(q, k, v, a);
        output(out[0], s, CUDNN_Y, s.H, s.D);
        output(out[1], s, CUDNN_LSE, s.H, 1);
        return;
    }
    auto a = masked<fe::graph::SDPA_backward_attributes>("attn_bwd", s);
    a.set_deterministic_algorithm(true);
    Tensor y = input(g, s, CUDNN_Y, s.H, s.D), dy = input(g, s, CUDNN_DY, s.H, s.D),
           lse = input(g, s, CUDNN_LSE, s.H, 1);
    auto out = g.sdpa_backward(q, k, v, y, dy, lse, a);
    output(out[0], s, CUDNN_DQ, s.H, s.D);
    output(out[1], s, CUDNN_DK, s.K, s.D);
    output(out[2], s, CUDNN_DV, s.K, s.D);
}

/* cuDNN's state for the device that is in use; NULL if it cannot be had */
static cudnnHandle_t handle()
{
    static cudnnHandle_t h;
    if (!h && cudnnCreate(&h) != CUDNN_STATUS_SUCCESS) h = nullptr;
    return h;
}
/* operations take note of the device when they are put into a graph: it comes first */
static fe::error_t build(fe::graph::Graph &g, const CudnnShape &s, int backward, const char *device,
                         int capability, int sm)
{
    if (!device) {
        if (!handle()) return { fe::error_code_t::HANDLE_ERROR, "cuDNN does not start" };
        describe(g, s, backward);
        return g.build(handle(), { fe::HeurMode_t::A });
    }
    auto d = std::make_shared<fe::DeviceProperties>();
    fe::error_t e = d->deserialize(std::vector<uint8_t>(device, device + strlen(device)));
    if (e.is_bad()) return e;
    g.set_device_properties(d).set_sm_version(capability).set_sm_count(sm);
    describe(g, s, backward);
    return g.build({ fe::HeurMode_t::A });
}

CudnnPlan *cudnn_plan(const CudnnShape *s, int backward, const char *device, int capability, int sm,
                      char *why, size_t n)
{
    if (cudnnGetVersion() < 92600) {
        snprintf(why, n, "cuDNN is of version %zu: 92600 is needed", cudnnGetVersion());
        return NULL;
    }
    try {
        auto p = std::make_unique<CudnnPlan>();
        fe::error_t e = build(p->graph, *s, backward, device, capability, sm);
        if (e.is_good()) e = p->graph.get_workspace_size(p->workspace);
        if (e.is_good()) return p.release();
        snprintf(why, n, "%s", e.get_message().c_str());
    } catch (const std::exception &x) {
        snprintf(why, n, "%s", x.what());
    }
    return NULL;
}
size_t cudnn_workspace(const CudnnPlan *p) { return (size_t)p->workspace; }
void cudnn_run(CudnnPlan *p, void *const array[CUDNN_ARRAYS], void *workspace, void *stream)
{
    std::unordered_map<int64_t, void *> at;
    for (int i = 0; i < CUDNN_ARRAYS; i++)
        if (array[i]) at[i] = array[i];
    if (cudnnSetStream(handle(), (cudaStream_t)stream) != CUDNN_STATUS_SUCCESS)
        die("cuDNN: it does not take the stream");
    fe::error_t e = p->graph.execute(handle(), at, workspace);
    if (e.is_bad())
        die("cuDNN: attention: %s (PIPEGPT_CUDNN=0 does without)", e.get_message().c_str());
}
void cudnn_free(CudnnPlan *p) { delete p; }
