/* rl.h -- the loss of a group of sampled answers to one prompt, from their rewards and
 * log-probabilities. Plain numbers, in double; no model.
 *
 * With r[i] the reward of answer i, logp the log-probability (nats) of a token under the policy
 * that is trained, old under the one that sampled, ref under the one it should stay near:
 *   advantage[i] = r[i] - mean(r), or (r[i] - mean(r)) / (std(r) + eps), population std
 *   token loss   = -advantage * exp(logp - old), where the gradient is that of -advantage * logp
 *                  if old is logp (on-policy); with clip > 0 the larger of that and
 *                  -advantage * clamp(exp(logp - old), 1 - clip, 1 + clip)
 *                  + beta (exp(ref - logp) - (ref - logp) - 1)
 *   loss         = RL_PER_TOKEN: sum of token losses / number of tokens
 *                  RL_PER_ANSWER: mean over the answers of the mean over an answer's tokens; an
 *                  answer without tokens counts as 0
 * A reward that is NAN could not be judged: that answer is left out of mean, std, tokens and
 * answers. Where all that count are equal, advantages are 0.
 *
 * Sources: nanochat 92d63d4, scripts/chat_rl.py (mean-subtracted, RL_PER_TOKEN, on-policy);
 * Shao et al., DeepSeekMath, arXiv 2402.03300 (GRPO: std, clip, KL, RL_PER_ANSWER); the KL estimate
 * is Schulman's k3, joschu.net/blog/kl-approx.html. */
#ifndef GPT_RL_H
#define GPT_RL_H

typedef enum { RL_PER_TOKEN, RL_PER_ANSWER } RlNorm;

typedef struct RlSettings {
    int std;                    /* divide by the deviation */
    double eps;                 /* added to it; 1e-8 */
    double clip;                /* 0: no clipping */
    double beta;                /* 0: no KL */
    RlNorm norm;
} RlSettings;

typedef struct RlGroup {
    int n, L;                   /* answers, tokens of the longest */
    const double *reward;       /* [n] */
    const double *logp;         /* [n,L] */
    const double *old, *ref;    /* [n,L]; old NULL: logp; ref NULL: no KL */
    const unsigned char *mask;  /* [n,L] 1: a token that the policy sampled; the others' numbers
                                   do not matter */
} RlGroup;

typedef struct RlLoss {
    double loss, kl;            /* kl: mean of its estimate per token, without beta */
    double mean, std;           /* of the rewards that count */
    int judged, tokens;         /* answers with a reward, their tokens */
    int clipped;                /* tokens whose gradient clipping took */
} RlLoss;

/* adv [n]; returns how many rewards count, *mean and *std of them (0 if none). */
int rl_advantages(double *adv, const RlSettings *s, const double *reward, int n, double *mean,
                  double *std);
/* grad [n,L] = d loss / d logp, 0 where the mask is 0; adv [n]. */
RlLoss rl_loss(double *grad, double *adv, const RlSettings *s, const RlGroup *g);

/* The unbiased estimate of the chance that one of k samples is right, when `right` of n are:
 * 1 - C(n - right, k) / C(n, k) (Chen et al. 2021). k <= n. */
double pass_at(int n, int right, int k);

#endif
