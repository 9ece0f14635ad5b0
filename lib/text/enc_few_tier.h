/* enc_few_tier.h -- several pieces merged in turn, included by enc_few_avx2.c and enc_few_avx512.c,
 * which define before:
 *   TIER_ATTR                            attributes of its functions
 *   TIER_NAME                            the function to make, see enc_int.h
 *   Turn                                 a piece among others
 *   void begin(const PairTable *m, const uint16_t *two, Few *p, Turn *w)
 *   void begin_end(const Few *p, Turn *w)        when what begin() stored has reached the cache
 *   bool step(const PairTable *m, Turn *w)       the lowest merge, the leftmost of equal ones;
 *                                                false: there is none
 *   void end(const Turn *w, Few *p)              p->n ids from p->id[0] on */

TIER_ATTR void TIER_NAME(const PairTable *pairs, const uint16_t *two, Few *const *piece,
                         size_t count)
{
    const PairTable m = *pairs;
    Turn w[FEW];
    for (size_t k = 0; k < count; k++) begin(&m, two, piece[k], &w[k]);
    for (size_t k = 0; k < count; k++) begin_end(piece[k], &w[k]);
    for (unsigned going = (1u << count) - 1; going; )
        for (unsigned g = going; g; g &= g - 1) {
            const unsigned k = (unsigned)__builtin_ctz(g);
            if (!step(&m, &w[k])) going ^= 1u << k;
        }
    for (size_t k = 0; k < count; k++) end(&w[k], piece[k]);
}
