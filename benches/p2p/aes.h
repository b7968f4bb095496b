/* AES-128 (FIPS 197), one block at a time and without tables beyond the S-boxes: a load for the processor, not for
 * secrets. `aes_check` holds it against the standard's own example. */
#include <stdint.h>
#include <string.h>

enum { AES_BLOCK = 16, AES_ROUNDS = 10 };

struct aes {
    uint8_t keys[AES_ROUNDS + 1][AES_BLOCK];
};

static uint8_t aes_box[256], aes_inverse[256];

static uint8_t aes_double(uint8_t x) { return (uint8_t)(x << 1 ^ (x >> 7) * 0x1b); }
static uint8_t aes_turned(uint8_t x, int by) { return (uint8_t)(x << by | x >> (8 - by)); }

/* The S-box: p runs over all field elements as powers of 3, q over their inverses. */
static void aes_make_boxes(void) {
    uint8_t p = 1, q = 1;
    do {
        p = (uint8_t)(p ^ aes_double(p));
        q ^= (uint8_t)(q << 1), q ^= (uint8_t)(q << 2), q ^= (uint8_t)(q << 4);
        q ^= q & 0x80 ? 0x09 : 0;
        aes_box[p] = (uint8_t)(q ^ aes_turned(q, 1) ^ aes_turned(q, 2) ^ aes_turned(q, 3) ^ aes_turned(q, 4) ^ 0x63);
    } while (p != 1);
    aes_box[0] = 0x63;
    for (int i = 0; i < 256; i++)
        aes_inverse[aes_box[i]] = (uint8_t)i;
}

static void aes_expand(struct aes *a, const uint8_t key[AES_BLOCK]) {
    uint8_t *words = a->keys[0], round = 1;
    aes_make_boxes();
    memcpy(words, key, AES_BLOCK);
    for (int i = AES_BLOCK; i < AES_BLOCK * (AES_ROUNDS + 1); i += 4) {
        uint8_t t[4] = {words[i - 4], words[i - 3], words[i - 2], words[i - 1]};
        if (i % AES_BLOCK == 0) {
            uint8_t first = t[0];
            t[0] = (uint8_t)(aes_box[t[1]] ^ round), t[1] = aes_box[t[2]], t[2] = aes_box[t[3]], t[3] = aes_box[first];
            round = aes_double(round);
        }
        for (int j = 0; j < 4; j++)
            words[i + j] = words[i + j - AES_BLOCK] ^ t[j];
    }
}

static void aes_add_key(uint8_t s[AES_BLOCK], const uint8_t key[AES_BLOCK]) {
    for (int i = 0; i < AES_BLOCK; i++)
        s[i] ^= key[i];
}

/* Substitution, and rows shifted by `shift` columns for each row: 1 to encrypt, 3 to decrypt. */
static void aes_substitute(uint8_t s[AES_BLOCK], const uint8_t box[256], int shift) {
    uint8_t from[AES_BLOCK];
    memcpy(from, s, AES_BLOCK);
    for (int i = 0; i < AES_BLOCK; i++)
        s[i] = box[from[(i + 4 * shift * (i % 4)) % AES_BLOCK]];
}

static void aes_mix(uint8_t s[AES_BLOCK]) {
    for (uint8_t *c = s; c < s + AES_BLOCK; c += 4) {
        uint8_t all = c[0] ^ c[1] ^ c[2] ^ c[3], first = c[0];
        for (int i = 0; i < 4; i++)
            c[i] ^= all ^ aes_double((uint8_t)(c[i] ^ (i < 3 ? c[i + 1] : first)));
    }
}

static void aes_unmix(uint8_t s[AES_BLOCK]) {
    for (uint8_t *c = s; c < s + AES_BLOCK; c += 4) {
        uint8_t even = aes_double(aes_double(c[0] ^ c[2])), odd = aes_double(aes_double(c[1] ^ c[3]));
        c[0] ^= even, c[2] ^= even, c[1] ^= odd, c[3] ^= odd;
    }
    aes_mix(s);
}

static void aes_encrypt(const struct aes *a, uint8_t s[AES_BLOCK]) {
    aes_add_key(s, a->keys[0]);
    for (int round = 1; round <= AES_ROUNDS; round++) {
        aes_substitute(s, aes_box, 1);
        if (round < AES_ROUNDS)
            aes_mix(s);
        aes_add_key(s, a->keys[round]);
    }
}

static void aes_decrypt(const struct aes *a, uint8_t s[AES_BLOCK]) {
    for (int round = AES_ROUNDS; round > 0; round--) {
        aes_add_key(s, a->keys[round]);
        if (round < AES_ROUNDS)
            aes_unmix(s);
        aes_substitute(s, aes_inverse, 3);
    }
    aes_add_key(s, a->keys[0]);
}

/* Whether the example of FIPS 197, appendix C.1, comes out, and back. */
static int aes_check(void) {
    static const uint8_t expected[AES_BLOCK] = {0x69, 0xc4, 0xe0, 0xd8, 0x6a, 0x7b, 0x04, 0x30, 0xd8, 0xcd, 0xb7, 0x80, 0x70, 0xb4, 0xc5, 0x5a};
    struct aes a;
    uint8_t key[AES_BLOCK], s[AES_BLOCK];
    for (uint8_t i = 0; i < AES_BLOCK; i++)
        key[i] = i, s[i] = (uint8_t)(i * 0x11);
    aes_expand(&a, key);
    aes_encrypt(&a, s);
    int right = memcmp(s, expected, AES_BLOCK) == 0;
    aes_decrypt(&a, s);
    for (uint8_t i = 0; i < AES_BLOCK; i++)
        right &= s[i] == (uint8_t)(i * 0x11);
    return right;
}
