package pay

import "time"

// Reissue gives a key another secret. Wallets, limits, history and organization stay.
type Reissue struct {
	KeyID  string
	Secret string // the new one
	At     time.Time
}

// Apply returns the key as the reissue leaves it: ErrKeyRevoked. A store calls it in the transaction
// that replaces the secret.
func (r Reissue) Apply(k Key) (Key, error) {
	if k.Revoked() {
		return k, ErrKeyRevoked
	}
	k.Reissued = r.At
	return k, nil
}
