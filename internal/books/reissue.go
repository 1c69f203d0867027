package books

import (
	"context"

	"github.com/purserpay/purser/pay"
)

// ReissueKey gives a key another secret, and returns it: ErrKeyNotFound, ErrKeyRevoked.
func (b *Books) ReissueKey(ctx context.Context, keyID string) (pay.Key, string, error) {
	secret := generateSecret()
	k, err := b.store.ReissueKey(ctx, pay.Reissue{KeyID: keyID, Secret: secret, At: b.now().UTC()})
	if err != nil {
		return pay.Key{}, "", err
	}
	by, _ := pay.ActorOf(ctx)
	b.log.Warn("API key: reissue", "key", k.ID, "by", by.String())
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
