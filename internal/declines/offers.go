package declines

import (
	"cmp"
	"errors"
	"time"

	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// Behind is the reason of an offer that could be paid, and is not preferred.
const Behind = "later"

// Offer is one of the offers of a challenge, as quotes list them.
type Offer struct {
	pay.Means

	Network string `json:"network"` // ours, or the seller's word
	Asset   string `json:"asset"`
	Amount  string `json:"amount"`          // in the asset's smallest unit
	Price   string `json:"price,omitempty"` // for people; "" for an asset that purser does not know
	PayTo   string `json:"payTo"`
	Expires string `json:"expires,omitempty"` // RFC 3339, UTC; "": the seller names no end
	Pays    bool   `json:"pays"`              // it is the one that would be paid
	// Reason says by a word why it would not be: [Behind], or that of a [Reason]. Detail tells people.
	Reason string `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// maxDetail bounds the words about one offer. Sellers choose how many there are.
const maxDetail = 300

// Offers tells of the offers of a quote, in the order of choice.
func Offers(list []pay.Offered) []Offer {
	var told []Offer
	for _, o := range list {
		one := Offer{
			Means: o.Means, Network: words.Of(o.Network), Asset: o.Asset.String(), Amount: o.Amount.String(), PayTo: o.PayTo.String(),
			Pays: o.Refusal == nil,
		}
		if o.Symbol != "" {
			one.Price = money.Text(o.Amount)
		}
		if !o.Expires.IsZero() {
			one.Expires = o.Expires.UTC().Format(time.RFC3339)
		}
		if o.Refusal != nil {
			one.Reason, one.Detail = wordOf(o.Refusal), words.Truncate(words.Of(detailOf(o.Refusal)), maxDetail)
		}
		told = append(told, one)
	}
	return told
}

// wordOf returns the reason of an offer, the same as for a 402 that is not paid because of the error.
func wordOf(err error) string {
	if errors.Is(err, pay.ErrBehind) {
		return Behind
	}
	if rule, is := errors.AsType[*pay.PolicyError](err); is {
		return rule.Rule
	}
	if held, is := errors.AsType[*pay.ApprovalError](err); is {
		return held.Rule()
	}
	if none, is := errors.AsType[*pay.NoWalletError](err); is && none.Unpayable != "" {
		return Of(pay.CodeUnsupported).Word
	}
	if failed, is := errors.AsType[*pay.FailedError](err); is {
		return OfFailed(failed)
	}
	return cmp.Or(Of(pay.Code(err)).Word, string(pay.Code(err)))
}

// OfFailed returns the reason of a payment that failed before anything was sent.
func OfFailed(failed *pay.FailedError) string {
	if failed.Funds {
		return "insufficient-funds"
	}
	return cmp.Or(Of(pay.Code(failed.Cause)).Word, "verification-refused")
}

// detailOf tells people of an error.
func detailOf(err error) string {
	if rule, is := errors.AsType[*pay.PolicyError](err); is {
		return rule.Detail
	}
	if held, is := errors.AsType[*pay.ApprovalError](err); is {
		return held.Detail()
	}
	if failed, is := errors.AsType[*pay.FailedError](err); is {
		return failed.Detail
	}
	return err.Error()
}
