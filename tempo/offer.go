package tempo

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// intentCharge is the one intent that the rail takes: one payment for one request.
const intentCharge = "charge"

// modePull has the seller send the transaction. In the other mode the payer sends it.
const modePull = "pull"

// maxSplits bounds the payees beside the first one. Sponsors take no more.
const maxSplits = 10

// offer is a challenge of MPP for the method tempo.
type offer struct {
	id, realm string
	expires   time.Time // zero: it does not say
	currency  x402.Address
	amount    money.Amount
	// transfers has the one to the seller, without a memo, and then those to others.
	transfers []Transfer
	sponsored bool
}

// readOffer reads the challenge from the entry of a requirement as package mpp writes it.
func readOffer(raw json.RawMessage) (o offer, err error) {
	entry, err := strictjson.Object(raw)
	if err != nil {
		return o, fmt.Errorf("the entry: %w", err)
	}
	challenge, err := strictjson.Object(entry["challenge"])
	if err != nil {
		return o, fmt.Errorf("the challenge: %w", err)
	}
	if text(challenge, "intent") != intentCharge {
		return o, fmt.Errorf("the intent is not %s", intentCharge)
	}
	if o.id, o.realm = text(challenge, "id"), text(challenge, "realm"); o.id == "" || o.realm == "" {
		return o, fmt.Errorf("the challenge has no id or no realm")
	}
	if _, has := challenge["expires"]; has {
		if o.expires, err = time.Parse(time.RFC3339, text(challenge, "expires")); err != nil {
			return o, fmt.Errorf("expires is not a time")
		}
	}
	plain, err := base64.RawURLEncoding.DecodeString(text(challenge, "request"))
	if err != nil {
		return o, fmt.Errorf("the request is not base64url")
	}
	request, err := strictjson.Object(plain)
	if err != nil {
		return o, fmt.Errorf("the request: %w", err)
	}
	return o, o.read(request)
}

// object is the members of an object of JSON.
type object = map[string]json.RawMessage

// text returns a member that is a text; "": it is none.
func text(o object, key string) string {
	s, _ := strictjson.Unquote(o[key])
	return s
}

// read reads the decoded request.
func (o *offer) read(request object) (err error) {
	if o.currency, err = x402.ParseAddress(text(request, "currency")); err != nil {
		return fmt.Errorf("currency is %w", err)
	}
	first, err := readTransfer(request)
	if err != nil {
		return err
	}
	o.amount = first.Amount
	details, err := strictjson.Object(request["methodDetails"])
	if err != nil {
		return fmt.Errorf("methodDetails: %w", err)
	}
	switch {
	case string(details["chainId"]) != fmt.Sprint(chainID):
		return fmt.Errorf("the chain id is %.20s instead of %d", details["chainId"], chainID)
	case details["memo"] != nil:
		return fmt.Errorf("the seller wants a memo of its own, which cannot be told from that of another payment")
	}
	switch sponsor := string(details["feePayer"]); sponsor {
	case "", "false":
	case "true":
		o.sponsored = true
	default:
		return fmt.Errorf("feePayer is neither true nor false")
	}
	if modes := details["supportedModes"]; modes != nil && !lists(modes, modePull) {
		return fmt.Errorf("the seller does not send transactions (supportedModes)")
	}
	var splits []Transfer
	if list := details["splits"]; list != nil {
		if splits, err = readSplits(list); err != nil {
			return err
		}
	}
	for _, s := range splits {
		var under bool
		if first.Amount, under = first.Amount.Sub(s.Amount); under || first.Amount.IsZero() {
			return fmt.Errorf("the splits leave nothing of the amount")
		}
	}
	o.transfers = append([]Transfer{first}, splits...)
	return nil
}

// lists reports whether an array of JSON has a text.
func lists(array json.RawMessage, wanted string) bool {
	return strictjson.Kind(array) == '[' && slices.ContainsFunc(slices.Collect(strictjson.Elements(array)), func(e json.RawMessage) bool {
		s, is := strictjson.Unquote(e)
		return is && s == wanted
	})
}

func readSplits(list json.RawMessage) (splits []Transfer, err error) {
	if strictjson.Kind(list) != '[' {
		return nil, fmt.Errorf("splits is no array")
	}
	for e := range strictjson.Elements(list) {
		if len(splits) == maxSplits {
			return nil, fmt.Errorf("more than %d splits", maxSplits)
		}
		split, err := strictjson.Object(e)
		if err != nil {
			return nil, fmt.Errorf("a split: %w", err)
		}
		t, err := readTransfer(split)
		if err != nil {
			return nil, fmt.Errorf("a split: %w", err)
		}
		if split["memo"] != nil {
			if t.Memo, err = x402.ParseNonce(text(split, "memo")); err != nil { // any 32 bytes
				return nil, fmt.Errorf("the memo of a split: %w", err)
			}
		}
		if _, is := Attributed(t.Memo); is {
			return nil, fmt.Errorf("the memo of a split could pay another challenge")
		}
		splits = append(splits, t)
	}
	return splits, nil
}

// readTransfer reads the members amount and recipient.
func readTransfer(o object) (t Transfer, err error) {
	if t.Amount, err = money.Parse(text(o, "amount")); err != nil || t.Amount.IsZero() {
		return t, fmt.Errorf("the amount is not a whole number above 0")
	}
	if t.To, err = x402.ParseAddress(text(o, "recipient")); err != nil || t.To.IsZero() {
		return t, fmt.Errorf("the recipient is not an address")
	}
	return t, nil
}

// calls returns the calls that pay the offer, the one with the memo first.
func (o offer) calls(memo Memo) []Call {
	calls := make([]Call, len(o.transfers))
	for i, t := range o.transfers {
		if i == 0 {
			t.Memo = memo
		}
		calls[i] = t.Call(o.currency)
	}
	return calls
}
