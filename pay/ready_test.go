package pay_test

import (
	"context"
	"errors"
	"testing"

	"github.com/purserpay/purser/pay"
)

// turns is a facilitator that counts the turns that it has given out.
type turns struct {
	*facilitator
	out int
}

func (f *turns) Ready(string) (giveBack func(), err error) { f.out++; return func() { f.out-- }, nil }

// orgless is a store that cannot tell plans.
type orgless struct{ *memStore }

func (orgless) Organization(context.Context, string) (pay.Organization, error) {
	return pay.Organization{}, pay.ErrUnavailable
}

// A call that ends before its payment is journaled gives the facilitator's turn back.
func TestTurnIsGivenBack(t *testing.T) {
	t.Parallel()
	fac := new(turns)
	w := newWorld(t, func(o *pay.Options) {
		fac.facilitator = o.Facilitator.(*facilitator)
		o.Facilitator, o.Store = fac, orgless{o.Store.(*memStore)}
	})
	w.key.OrganizationID = "org"
	_, err := w.payer.Pay(t.Context(), w.rest(pay.SettlePayer, "https://a.example/", "1", ""))
	if !errors.Is(err, pay.ErrUnavailable) || fac.out != 0 {
		t.Fatalf("%v, %d turns are out", err, fac.out)
	}
}
