package books_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
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
