package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
)

const (
	purserREST  = "POST /v1/pay"
	purserSpend = "GET /v1/spend"
)

// runREST pays through the REST API with settlement payer: /verify and /settle. The facilitator
// answers at once, so that all measured time is purser's.
func runREST(ctx context.Context, b *bench) error {
	p, err := b.startPurser(ctx, filepath.Join(b.dir, "rest"), "PURSER_FACILITATOR_URL="+b.seller.url)
	if err != nil {
		return err
	}
	defer p.stop()
	keys, err := p.newKeys(ctx, maxClients)
	if err != nil {
		return err
	}
	for _, n := range levels {
		m, err := b.drive(ctx, load{clients: n}, p.child, func(ctx context.Context, i int, serial uint64, measured bool) error {
			body, err := json.Marshal(map[string]string{
				"paymentRequiredHeader": b.seller.challenge, "requestUrl": b.seller.url + numbered("/paid", serial, measured),
			})
			if err != nil {
				return err
			}
			_, got, err := ask(ctx, p.api, http.MethodPost, p.url+"/v1/pay", string(body), http.StatusOK, "X-Api-Key", keys[i])
			if err != nil {
				return err
			}
			var paid struct {
				PaymentSignature string
				Settled          bool
			}
			if err := json.Unmarshal(got, &paid); err != nil {
				return err
			}
			if !paid.Settled || paid.PaymentSignature == "" {
				return errors.New("an answer came unpaid")
			}
			return nil
		})
		if err != nil {
			return err
		}
		m.OwnMiB, m.MiB = memory(p.pid())
		b.report.add("rest", purserREST, m)
	}
	return nil
}
