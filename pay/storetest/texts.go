package storetest

import (
	"errors"
	"strings"
	"time"

	"github.com/purserpay/purser/pay"
)

// callersTexts returns texts that callers can put in the place of an id: no database must take one for a
// fault of its own.
func callersTexts() map[string]string {
	long := make([]byte, 40<<10)
	for i := range long { // no database can compress it into an index
		long[i] = byte('a' + (i*i*31+i/7)%26)
	}
	return map[string]string{
		"zero": "\x00", "zero inside": "a\x00b", "no UTF-8": "\xff\xfe", "half a rune": "a\xe2\x82", "long": string(long), "words": "' OR 1=1; --", "empty": "",
	}
}

var textTests = map[string]func(*fixture){
	"ids that are none": func(f *fixture) {
		k := f.key()
		for name, id := range callersTexts() {
			for what, err := range map[string]error{
				"Payment": second(f.Payment(f.ctx, id)), "Key": second(f.Key(f.ctx, id)), "KeyBySecret": second(f.KeyBySecret(f.ctx, id)),
				"Wallet": second(f.Wallet(f.ctx, id)), "Wallets": second(f.Wallets(f.ctx, id)), "Approval": second(f.Approval(f.ctx, id)),
				"Session": second(f.Session(f.ctx, id)), "Account": second(f.Account(f.ctx, id)), "Organization": second(f.Organization(f.ctx, id)),
				"SpendEvents": second(f.SpendEvents(f.ctx, k.ID, pay.SpendQuery{Before: id, Task: id, Limit: 1})),
				"Payments":    second(f.Payments(f.ctx, pay.PaymentQuery{KeyID: k.ID, Before: id, Limit: 1})),
				"of a key":    second(f.Payments(f.ctx, pay.PaymentQuery{KeyID: id, Limit: 1})),
				"ListKeys":    second(f.ListKeys(f.ctx, id, 1)), "AllWallets": second(f.AllWallets(f.ctx, id, 1)),
				"ListSpend": second(f.ListSpend(f.ctx, []string{k.ID}, pay.OrganizationSpendQuery{Host: id, Task: id, Before: id, Limit: 1})),
				"Counter":   second(f.Counter(f.ctx, pay.Counter(id))),
			} {
				if errors.Is(err, pay.ErrUnavailable) {
					f.Errorf("%s, %s: %.200v", what, name, err)
				}
			}
			f.must(f.ForgetNotice(f.ctx, id))
		}
		f.must(f.Health(f.ctx))
	},
	"keys and notices with texts of callers": func(f *fixture) {
		for name, text := range callersTexts() {
			k := newKey("")
			k.Label = strings.ToValidUTF8(text, "?")
			made, err := f.CreateKey(f.ctx, k)
			if err != nil {
				f.Fatalf("%s: %.200v", name, err)
			}
			f.same("label", must(f.Key(f.ctx, made.ID)).Label, k.Label)
			n := notice(pay.NoticeNewHost, made.ID, "host/"+text, noon)
			n.Title, n.Host = text, text
			f.must(f.AddNotices(f.ctx, []pay.Notice{n}))
		}
		f.same("told", len(f.kinds(0)), len(callersTexts()))
		f.must(f.Health(f.ctx))
	},
	"payments with texts of callers": func(f *fixture) {
		k := f.key()
		callers := callersTexts()
		for name, text := range callers {
			text = strings.ToValidUTF8(text, "?") // other texts cannot be keys
			b := want(k, noon)
			b.IdempotencyKey, b.New.IdempotencyKey = text, text
			b.New.RequestURL, b.New.Host = "https://"+callers[name], strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "")
			b.KeyName = "name"
			begun, err := f.Begin(f.ctx, b)
			if err != nil {
				f.Errorf("%s: %.300v", name, err)
				continue
			}
			again := want(k, noon.Add(time.Minute))
			again.IdempotencyKey, again.New.IdempotencyKey, again.Fingerprint, again.New.Fingerprint = text, text, b.Fingerprint, b.Fingerprint
			if text != "" {
				if got, err := f.Begin(f.ctx, again); err != nil || got.Payment.ID != begun.Payment.ID {
					f.Errorf("%s: the repeat got %v, %.200v", name, got.Payment, err)
				}
			}
		}
		f.must(f.Health(f.ctx))
	},
}

// second returns the error of a call.
func second[T any](_ T, err error) error { return err }
