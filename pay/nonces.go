package pay

import "github.com/purserpay/purser/x402"

// maxOtherNonces bounds the memory of sellers. A forgotten one refuses one more payment.
const maxOtherNonces = 10_000

// boundNonce returns the nonce that a seller wants; nil: any.
func (p *Payer) boundNonce(host string, r x402.Requirement) *x402.Nonce {
	if r.OtherNonce != nil && p.otherNonces.Contains(HashOf(host, r.Realm)) {
		return r.OtherNonce
	}
	return r.Nonce
}

// WrongNonce notes that the seller has refused the payload because it wants the challenge's nonce in another form. The
// next purchase there has it in that form. This payment keeps its own: another authorization is made only once the chain
// shows that this one is unused for good. other: the payload has [x402.Requirement.OtherNonce] of a challenge of realm.
func (a *Attempt) WrongNonce(realm string, other bool) {
	seller := HashOf(a.row.Host, realm)
	if other {
		a.payer.otherNonces.Remove(seller)
	} else {
		a.payer.otherNonces.Add(seller, struct{}{})
	}
}
