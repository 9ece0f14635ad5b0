/* chat.h -- conversations as token ids, each with its loss mask: what training, evaluation and
 * chatting share, so that one conversation has the same ids in all of them.
 *
 * A template says how turns are marked. The number after each part below is its mask:
 *   nanochat  bos(0), then for a user user_start(0) text(0) user_end(0), for the assistant
 *             assistant_start(0) parts assistant_end(1). A part is text(1), or a call
 *             python_start(1) text(1) python_end(1), or its result output_start(0) text(0)
 *             output_end(0). A system message goes before the first user's text, with a blank line
 *             between.
 *   chatml    im_start(0) "user\n"text(0) im_end(0) "\n"(0); the assistant's header is
 *             im_start(0) "assistant\n"(0), its text(1) and im_end(1); a system
 *             message as a user's.
 *   llama3    begin_of_text(0), then start_header_id(0) "user"(0) end_header_id(0) "\n\n"text(0)
 *             eot_id(0); the assistant's "\n\n"(0), text(1) and eot_id(1) alike.
 * Text is always ordinary bytes, whatever it says: control ids depend on the structure alone. Each
 * text is encoded by itself, the assistant's apart from its header, as it is when it is sampled.
 *
 * A Chat belongs to one thread. Its encoder is the caller's and must live as long. */
#ifndef TEXT_CHAT_H
#define TEXT_CHAT_H
#include "base/json.h"
#include "text/enc.h"

typedef enum { CHAT_NANOCHAT, CHAT_CHATML, CHAT_LLAMA3, CHAT_KINDS } ChatKind;
#define CHAT_NAMES "nanochat|chatml|llama3"
ChatKind chat_kind(const char *name);           /* one of CHAT_NAMES */
ChatKind chat_guess(const Tok *t);              /* by the special tokens; nanochat if by none */

typedef enum { PART_TEXT, PART_PYTHON, PART_OUTPUT, PART_KINDS } PartKind;
extern const char *const part_names[PART_KINDS];        /* "text", "python", "python_output" */

typedef struct ChatIds {        /* {0} is empty; chatids_free() */
    TokOut ids;                 /* of 4 bytes each; width is set by the first that is added */
    Buf mask;                   /* bytes 0 or 1, one per id */
    uint64_t cut, mask_cut;     /* ids that chat_render() cut off so far, those of mask 1 */
} ChatIds;
static inline uint32_t *chatids(const ChatIds *c) { return c->ids.id; }
void chatids_cut(ChatIds *c, size_t n);         /* to at most n ids; not counted in cut */
void chatids_free(ChatIds *c);

typedef struct Chat Chat;
bool chat_known(const Tok *t);                  /* has it the special tokens of any? */
/* Dies "tok_file: has no ..." if the tokenizer lacks a special token that the template needs.
 * bos: the id that begins each conversation; -1: that of the template (chatml has none). */
Chat *chat_new(const Tok *t, const char *tok_file, TokEnc *e, ChatKind kind, int bos);
void chat_free(Chat *c);
int chat_bos(const Chat *c);                    /* -1: none */
/* Sets stop[id], [vocab], for all that end an answer: its end token, and what would begin another
 * turn or conversation. */
void chat_stops(const Chat *c, unsigned char *stop);
int chat_end_id(const Chat *c);                 /* the end token of an answer */

/* The whole of it from JSON: an optional system message, then user and assistant in turn. With
 * `completion` the last message must be the assistant's; it is left out and its header appended,
 * for sampling it. Cut to `most` ids (SIZE_MAX: whole; the header comes after that). Appended to
 * out. Returns NULL, or what is wrong (malloced): "message 2: ...", counted from 1. */
char *chat_render(Chat *c, ChatIds *out, const Json *messages, bool completion, size_t most);

/* The same in steps, appended to out; texts are valid UTF-8. chat_begin once; chat_user with the
 * system message (NULL: none) for the first user only. */
void chat_begin(Chat *c, ChatIds *out);
void chat_user(Chat *c, ChatIds *out, const char *system, size_t len, const char *s, size_t n);
void chat_answer(Chat *c, ChatIds *out);                        /* the assistant's header */
void chat_part(Chat *c, ChatIds *out, PartKind k, const char *s, size_t n);
void chat_end(Chat *c, ChatIds *out);                           /* of the answer */
/* What lies between header and end: from the content of a message, the at-th, with an error as of
 * chat_render(); or as it was sampled, mask 1. */
char *chat_content(Chat *c, ChatIds *out, const Json *message, int at);
void chat_sampled(ChatIds *out, const uint32_t *id, size_t n);

/* Ids of an answer (without its header; its end token may be there or not) as parts: calls part()
 * for each, in order. Ids that belong to no well-formed part are text, special ones of them left
 * out; but a result that is cut off is a result. Text is repaired to valid UTF-8. */
void chat_parts(Chat *c, const uint32_t *id, size_t n,
                void (*part)(void *arg, PartKind k, const char *s, size_t n), void *arg);

#endif
