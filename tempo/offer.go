package tempo

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/protocol/mpp"
	"github.com/purserpay/purser/x402"
)

// modePull has the seller send the transaction. In the other mode the payer sends it.
const modePull = "pull"

// maxSplits bounds the payees beside the first one. Sponsors take no more.
const maxSplits = 10

// offer is a challenge of MPP for the method tempo.
type offer struct {
	id, realm string
	currency  x402.Address
	amount    money.Amount
	// transfers has the one to the seller, without a memo, and then those to others.
	transfers []Transfer
	sponsored bool
}

// readOffer reads the challenge that a requirement keeps.
func readOffer(raw json.RawMessage) (o offer, err error) {
	challenge, request, err := mpp.ReadEcho(raw)
	if err != nil {
		return o, err
	}
	o = offer{id: challenge.Get("id"), realm: challenge.Get("realm"), currency: request.Currency, amount: request.Amount}
	details := request.Details
	switch {
	case challenge.Get("method") != "tempo" || !strings.EqualFold(challenge.Get("intent"), x402.SchemeCharge):
		return o, errors.New("it is no charge by tempo")
	case o.id == "" || o.realm == "":
		return o, errors.New("the challenge has no id or no realm")
	case request.ChainID != chainID:
		return o, fmt.Errorf("the chain id is %d instead of %d", request.ChainID, chainID)
	case o.amount.IsZero():
		return o, errors.New("the amount is 0")
	case details["memo"] != nil:
		return o, errors.New("the seller wants a memo of its own, which cannot be told from that of another payment")
	case details["supportedModes"] != nil && !lists(details["supportedModes"], modePull):
		return o, errors.New("the seller does not send transactions (supportedModes)")
	}
	switch sponsor := string(details["feePayer"]); sponsor {
	case "", "false":
	case "true":
		o.sponsored = true
	default:
		return o, errors.New("feePayer is neither true nor false")
	}
	first := Transfer{To: request.Payee, Amount: request.Amount}
	var splits []Transfer
	if list := details["splits"]; list != nil {
		if splits, err = readSplits(list); err != nil {
			return o, err
		}
	}
	for _, s := range splits {
		var under bool
		if first.Amount, under = first.Amount.Sub(s.Amount); under || first.Amount.IsZero() {
			return o, errors.New("the splits leave nothing of the amount")
		}
	}
	o.transfers = append([]Transfer{first}, splits...)
	return o, nil
}

// object is the members of an object of JSON.
type object = map[string]json.RawMessage

// text returns a member that is a text; "": it is none.
func text(o object, key string) string {
	s, _ := strictjson.Unquote(o[key])
	return s
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
		return nil, errors.New("splits is no array")
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
			return nil, errors.New("the memo of a split could pay another challenge")
		}
		splits = append(splits, t)
	}
	return splits, nil
}

// readTransfer reads the members amount and recipient.
func readTransfer(o object) (t Transfer, err error) {
	if t.Amount, err = money.Parse(text(o, "amount")); err != nil || t.Amount.IsZero() {
		return t, errors.New("the amount is not a whole number above 0")
	}
	if t.To, err = x402.ParseAddress(text(o, "recipient")); err != nil || t.To.IsZero() {
		return t, errors.New("the recipient is not an address")
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
