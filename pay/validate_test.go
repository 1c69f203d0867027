package pay_test

import (
	"errors"
	"testing"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

func usdc(n uint64) *policy.Cap { return policy.CapOf(money.New(n)) }

// Whatever sets a policy refuses one that cannot be meant.
func TestInvalidPoliciesAreNotSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	bad := policy.Policy{DenyHosts: []string{"EVIL.example.com"}}
	_, err := pay.New(pay.Options{Store: w.store, Wallets: w.ring, DefaultPolicy: bad})
	if field, is := errors.AsType[*policy.FieldError](err); !is || field.Field != "deny_hosts" {
		t.Errorf("got %v", err)
	}
	_, _, err1 := w.books.CreateKey(t.Context(), books.KeyRequest{Policy: &bad})
	_, err2 := w.books.SetPolicy(t.Context(), w.key.ID, &bad)
	for _, err := range []error{err1, err2} {
		var input *pay.InputError
		if !errors.As(err, &input) || input.Field != "deny_hosts" {
			t.Errorf("got %v", err)
		}
	}
	if k, err := w.books.Key(t.Context(), w.key.ID); err != nil || k.Policy != nil || k.PolicyRevision != 0 {
		t.Errorf("key %+v, %v", k, err)
	}
}

func TestTaskIsChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	r := w.proxied("https://a.example/x", "1", "")
	r.Task = "a/b"
	_, err := w.payer.Open(t.Context(), r)
	var input *pay.InputError
	if !errors.As(err, &input) || input.Field != "task" {
		t.Errorf("got %v", err)
	}
	if _, _, err := w.books.Spend(t.Context(), w.key, pay.SpendQuery{Task: "*", Limit: 1}); !errors.As(err, &input) || input.Field != "task" {
		t.Errorf("got %v", err)
	}
}
