package pgstore_test

import (
	"log/slog"
	"os"
	"os/exec"
	"testing"

	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/pgstore"
	"github.com/purserpay/purser/signer"
)

func booksOf(t *testing.T, d *pgstore.DB) *books.Books {
	t.Helper()
	b, err := books.New(books.Options{Store: d, Wallets: signer.NewLocal(d)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Nodes that start together on an empty database make one wallet for PURSER_KEY: with two, people fund one, and
// what pays may be the other.
func TestNodesMakeOneWallet(t *testing.T) {
	t.Parallel()
	if url := os.Getenv("PURSER_TEST_NODE"); url != "" { // a node of its own
		d := node(t, pgstore.Options{URL: url})
		k := books.OperatorKeys{Books: booksOf(t, d), Network: "base", Log: slog.New(slog.DiscardHandler)}
		key, err := k.Ensure(t.Context(), "PURSER_KEY", os.Getenv("PURSER_TEST_SECRET"), "deployment")
		if err == nil {
			err = k.Deploy(t.Context(), key)
		}
		if err != nil {
			t.Error(err)
		}
		return
	}
	url, secret := fresh(t, pgtest.Start(t)), "pk_"+uuid.NewString()
	d := node(t, pgstore.Options{URL: url})
	key, _, err := booksOf(t, d).CreateKey(t.Context(), books.KeyRequest{Operator: true, Secret: secret, Label: "deployment"})
	if err != nil {
		t.Fatal(err)
	}
	release := held(t, url, `SELECT FROM locks WHERE name = 'configuration' FOR UPDATE`)
	var nodes []*exec.Cmd
	for range 2 {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=TestNodesMakeOneWallet$")
		c.Env = append(os.Environ(), "PURSER_TEST_NODE="+url, "PURSER_TEST_SECRET="+secret)
		c.Stdout, c.Stderr = os.Stderr, os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, c)
	}
	blocked(t, url, 2)
	release()
	for _, c := range nodes {
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
	wallets, err := d.Wallets(t.Context(), key.ID)
	if err != nil || len(wallets) != 1 {
		t.Errorf("%d wallets, %v", len(wallets), err)
	}
	if w, err := d.DeploymentWallet(t.Context(), "base"); err != nil || w.ID != wallets[0].ID {
		t.Errorf("the deployment's is %s, payments draw from %s, %v", w.ID, wallets[0].ID, err)
	}
}
