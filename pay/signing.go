package pay

import (
	"context"
	"errors"
	"fmt"

	"github.com/purserpay/purser/x402"
)

// SignerError: a wallet provider outside this process did not do what it was asked for. Its text is
// short, and has no secrets and no URLs.
type SignerError struct {
	Provider string // see Wallets.Name
	Fault    SignerFault
	Detail   string
	// Unsigned: the provider has provably made no signature. Otherwise one may be out.
	Unsigned bool
	Cause    error
}

func (e *SignerError) Error() string { return "the " + e.Provider + " signer " + e.Detail }
func (e *SignerError) Unwrap() error { return e.Cause }

// SignerFault names a kind of SignerError by a stable word.
type SignerFault string

// The faults of signers.
const (
	SignerUnreachable SignerFault = "unreachable" // no connection, or it broke
	SignerSlow        SignerFault = "slow"        // no answer in time
	SignerDenied      SignerFault = "denied"      // it does not accept purser's credentials
	SignerClock       SignerFault = "clock"       // nor would it: the clocks differ too much
	SignerBusy        SignerFault = "busy"        // it asks for fewer requests
	SignerFailing     SignerFault = "failing"     // an error of its own
	SignerRefused     SignerFault = "refused"     // it does not do what was asked: the account is locked, a policy forbids it
	SignerUnknown     SignerFault = "unknown"     // it does not have the account
	SignerConflict    SignerFault = "conflict"    // an earlier request has the name or the idempotency key
	SignerNoAccount   SignerFault = "no-account"  // each account is lent to a wallet
	SignerUnreadable  SignerFault = "unreadable"  // its answer is not what was asked for
)

// sign makes the payload. A new payment that cannot be signed is void. It is doubted if a signer
// outside this process may have signed it: a repeat then gets the same authorization.
func (a *Attempt) sign(ctx context.Context, w Wallet) error {
	if a.row.Signature == nil {
		signing, end := a.payer.stage(ctx, "sign", a.row.ID)
		sig, err := a.payer.sign(signing, a.row, w)
		end(err)
		if err != nil {
			return a.unsigned(ctx, err)
		}
		a.row = a.row.Clone()
		a.row.Signature = &sig
		a.payer.log.DebugContext(ctx, "payment signed", "payment", a.row.ID)
	}
	var err error
	a.payload, err = a.payer.payload(a.row, a.row.Offer)
	return err
}

// unsigned records that there is no signature, and returns the error for the caller.
func (a *Attempt) unsigned(ctx context.Context, err error) error {
	doubted := a.payer.mayBeSigned(err) || a.revived != Unclear
	if o := unsentOutcome(a.how, a.revived, false, doubted, "not signed: "+err.Error()); o.Verdict != Unclear {
		_ = a.record(ctx, o)
	}
	a.payer.log.ErrorContext(ctx, "payment not signed", "payment", a.row.ID, "error", err)
	detail := "the wallet could not sign"
	if signer, ok := errors.AsType[*SignerError](err); ok {
		detail += ": " + signer.Error()
	}
	return &FailedError{Stage: StageVerify, Payment: a.row, Detail: detail, Cause: err}
}

// mayBeSigned reports whether a signature may exist although signing has failed.
func (p *Payer) mayBeSigned(err error) bool {
	if _, inProcess := p.opts.Wallets.(KeyProving); inProcess {
		return false
	}
	if signer, ok := errors.AsType[*SignerError](err); ok {
		return !signer.Unsigned
	}
	return !errors.Is(err, ErrNoAddress)
}

// sign asks the wallet's provider. A signature that comes from outside the process is checked by
// recovery before it leaves (docs/design/payments.md).
func (p *Payer) sign(ctx context.Context, row *Payment, w Wallet) (x402.Signature, error) {
	if w.ID != row.WalletID {
		var err error
		if w, err = p.store.Wallet(ctx, row.WalletID); err != nil {
			return x402.Signature{}, err
		}
	}
	m, err := p.message(row)
	if err != nil {
		return x402.Signature{}, err
	}
	return SignMessage(ctx, p.opts.Wallets, w, m)
}

// SignsFor says why the keys of a provider cannot pay on a network, by our name; nil: they can, or it has no keys.
func SignsFor(by Wallets, network string) error {
	n, _ := x402.NetworkByWire(network)
	_, can := by.(BytesSigner)
	if n.Rail == 0 || can {
		return nil
	}
	return fmt.Errorf("payments on %s are transactions, and only wallets with keys of purser's own sign those (PURSER_WALLETS=local, and it is %s)", n.Title, by.Name())
}

// SignMessage has a wallet sign a message, and checks a signature from outside the process.
func SignMessage(ctx context.Context, by Wallets, w Wallet, m Message) (x402.Signature, error) {
	sign := by.Sign
	if m.TypedData == nil {
		other, can := by.(BytesSigner)
		if !can {
			return x402.Signature{}, fmt.Errorf("signing with wallet %s: %w", w.ProviderID, &SignerError{
				Provider: by.Name(), Fault: SignerRefused, Detail: "has no keys of the rail", Unsigned: true,
			})
		}
		sign = other.SignBytes
	}
	sig, err := sign(ctx, w, m)
	if err != nil {
		return x402.Signature{}, fmt.Errorf("signing with wallet %s: %w", w.ProviderID, err)
	}
	if _, proven := by.(KeyProving); proven && m.TypedData != nil {
		return sig, nil
	}
	err = m.proven(sig)
	if err != nil {
		return x402.Signature{}, fmt.Errorf("signing with wallet %s: %w", w.ProviderID, &SignerError{
			Provider: by.Name(), Fault: SignerUnreadable, Detail: "gave a wrong signature: " + err.Error(), Cause: err,
		})
	}
	return sig, nil
}
