package books_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/testing/paytest"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/signer"
	"github.com/purserpay/purser/x402"
)

func TestKeysAndPolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := []string{w.key.ID}
	for range 4 {
		k, _, err := w.CreateKey(t.Context(), books.KeyRequest{})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, k.ID)
	}
	after, got := "", []string{}
	for {
		page, err := w.Keys(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, k := range page {
			got = append(got, k.ID)
		}
		after = got[len(got)-1]
	}
	if !slices.Equal(got, ids) {
		t.Errorf("keys %v, want %v", got, ids)
	}
	pol := policy.Policy{DailyBudget: policy.CapOf(money.New(5))}
	k, err := w.SetPolicy(t.Context(), ids[2], &pol)
	if err != nil || k.ID != ids[2] || !reflect.DeepEqual(*k.Policy, pol) {
		t.Errorf("%+v, %v", k, err)
	}
	if again, err := w.Key(t.Context(), ids[2]); err != nil || !reflect.DeepEqual(again, k) {
		t.Errorf("%+v, %v", again, err)
	}
	if k, err = w.SetPolicy(t.Context(), ids[2], nil); err != nil || k.Policy != nil {
		t.Errorf("%+v, %v", k, err)
	}
	for _, err := range []error{
		second(w.Key(t.Context(), "nobody")), second(w.SetPolicy(t.Context(), "nobody", &pol)),
	} {
		if !errors.Is(err, pay.ErrKeyNotFound) {
			t.Errorf("got %v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// A signer outside the process signs no transactions of Tempo, so a wallet there is refused before there is one.
func TestWalletsThatCannotPayAreRefused(t *testing.T) {
	t.Parallel()
	base, _ := x402.NetworkByWire("base")
	tempo, _ := x402.NetworkByWire("tempo")
	networks := []x402.Network{base, tempo}
	made := paytest.NewWorld(t, pay.Options{Networks: networks, Wallets: signer.None{}})
	k, _, err := made.Books.CreateKey(t.Context(), books.KeyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = made.Books.CreateWallet(t.Context(), k, "tempo")
	if input, is := errors.AsType[*pay.InputError](err); !is || input.Field != "network" || !strings.Contains(input.Reason, "PURSER_WALLETS=local") {
		t.Errorf("got %v", err)
	}
	if _, err := made.Books.CreateWallet(t.Context(), k, "base"); err != nil {
		t.Error(err)
	}
	own := paytest.NewWorld(t, pay.Options{Networks: networks})
	if k, _, err = own.Books.CreateKey(t.Context(), books.KeyRequest{}); err != nil {
		t.Fatal(err)
	}
	if w, err := own.Books.CreateWallet(t.Context(), k, "tempo"); err != nil || w.Network != "tempo" {
		t.Errorf("%+v, %v", w, err)
	}
}
