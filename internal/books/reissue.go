package books

import (
	"context"
	"time"

	"github.com/purserpay/purser/pay"
)

// ReissueKey gives a key another secret, and returns it. For an overlap, the earlier one goes on.
// ErrKeyNotFound, ErrKeyRevoked, *InputError.
func (b *Books) ReissueKey(ctx context.Context, keyID string, overlap time.Duration) (pay.Key, string, error) {
	secret := generateSecret()
	k, err := b.store.ReissueKey(ctx, pay.Reissue{KeyID: keyID, Secret: secret, At: b.now().UTC(), Overlap: overlap})
	if err != nil {
		return pay.Key{}, "", err
	}
	by, _ := pay.ActorOf(ctx)
	b.log.Warn("API key: reissue", "key", k.ID, "by", by.String(), "overlap", overlap)
	return k, secret, nil
}

// ExecSecret finds the exec key with its secret: ErrKeyNotFound.
func (b *Books) ExecSecret(ctx context.Context) (pay.Key, string, error) {
	k, err := b.reader.ExecKey(ctx)
	if err != nil {
		return pay.Key{}, "", err
	}
	secret, err := b.store.RevealKey(ctx, k.ID)
	return k, secret, err
}
