package pgstore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storetest"
	"github.com/purserpay/purser/pgstore"
)

var testMaster = vault.MasterKey{1, 2, 3}

// opener opens one schema of the test server.
type opener struct {
	url string
	db  *pgstore.DB
}

func (o *opener) Open(t testing.TB) pay.Store {
	t.Helper()
	db, err := pgstore.Open(context.Background(), pgstore.Options{URL: o.url, MasterKey: vault.Given(testMaster)})
	if err != nil {
		t.Fatal(err)
	}
	o.db = db
	return db
}

func (o *opener) Close(t testing.TB) {
	t.Helper()
	if err := o.db.Close(); err != nil {
		t.Error(err)
	}
}

// Kill closes the store: what counts is durable, and kills of processes are tested with processes.
func (o *opener) Kill(t testing.TB) { o.Close(t) }

// fresh makes an empty schema.
func fresh(t testing.TB, server *pgtest.Server) string {
	t.Helper()
	name := "t_" + uuid.NewString()[:13]
	c, err := pgx.Connect(context.Background(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(context.Background(), fmt.Sprintf(`CREATE SCHEMA %q`, name)); err != nil {
		t.Fatal(err)
	}
	return server.URL + "&pool_max_conns=4&search_path=" + name
}

func TestConformance(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	storetest.Run(t, func(t testing.TB) storetest.Opener { return &opener{url: fresh(t, server)} })
}
