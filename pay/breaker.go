package pay

// Breaking is what a [Facilitator] may be as well: one that is not asked for a while after
// it has failed too often.
type Breaking interface {
	// Ready is nil if a new payment of a key may be made that has to be shown to the facilitator.
	// Otherwise the error says, for the caller's eyes, why not, and when it is asked again.
	// Then one payment is let through to find out: giveBack, which is never nil, says that
	// there was none after all.
	//
	// Payments that were begun are not held up by it. What clients or sellers can make fail by
	// what they send must count for the key that it was sent for, [Exchange.KeyID], alone: a
	// facilitator is shared by all.
	Ready(keyID string) (giveBack func(), err error)
}

// ready asks whether the facilitator is worth asking.
func (p *Payer) ready(keyID string) (giveBack func(), err error) {
	if f, ok := p.opts.Facilitator.(Breaking); ok {
		return f.Ready(keyID)
	}
	return func() {}, nil
}

// unavailable is the refusal of a new payment for which the facilitator would have to be
// asked. Nothing was journaled.
func unavailable(err error) error {
	return &FailedError{Stage: StageVerify, Detail: err.Error(), Facilitator: faultDetail(err), Cause: err}
}
