package pgstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pgstore"
)

// A PgBouncer in session mode needs no settings for purser. The limits of sessions are in force behind it, and nodes hear
// of each other.
func TestPoolerInSessionMode(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	for _, c := range []struct{ name, more, limits string }{
		{"by default", "", "8s/4s "},
		{"with a limit in the URL", "&lock_timeout=3s", "3s/4s "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url := strings.Replace(fresh(t, server), server.URL, server.Bouncer(t, "session"), 1) + c.more
			var nodes []*pgstore.DB
			for range 2 {
				d, err := pgstore.Connect(t.Context(), pgstore.Options{URL: url, MasterKey: vault.Given(testMaster), Dir: t.TempDir()}, 0)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := d.Close(); err != nil {
						t.Error(err)
					}
				})
				nodes = append(nodes, d)
			}
			k := keyOn(t, nodes[0])
			for _, d := range nodes {
				pays(t, d, k, 10)
				if is := d.Limits(t.Context()); is != c.limits+c.limits {
					t.Errorf("limits of the sessions: %s", is)
				}
				wait(t, "listening", func() bool { return d.Stats().Listening })
			}
			if err := nodes[0].Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A pooler that shares sessions is refused at the start in one sentence, whatever order it hands them out in, and whether
// or not others use it.
func TestPoolerThatSharesSessions(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	const known = "ignore_startup_parameters = lock_timeout,idle_in_transaction_session_timeout,search_path"
	for _, c := range []struct {
		name, mode string
		lines      []string
		others     int
	}{
		{"transaction", "transaction", nil, 0},
		{"transaction, with the usual workaround", "transaction", []string{known}, 0},
		{"transaction, in turn", "transaction", []string{"server_round_robin = 1", known}, 3},
		{"transaction, one session", "transaction", []string{"default_pool_size = 1"}, 0},
		{"transaction, busy", "transaction", []string{known}, 6},
		{"statement", "statement", []string{known}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pooler := server.Bouncer(t, c.mode, c.lines...)
			for range c.others { // each leaves a session that is free
				conn, err := pgx.Connect(t.Context(), pooler+"&default_query_exec_mode=simple_protocol")
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan struct{})
				t.Cleanup(func() { <-done })
				go func() {
					defer close(done)
					for t.Context().Err() == nil {
						_, _ = conn.Exec(t.Context(), `SELECT pg_sleep(0.003)`) // the test is over
					}
				}()
			}
			url := strings.Replace(fresh(t, server), server.URL, pooler, 1)
			o := pgstore.Options{URL: url, MasterKey: vault.Given(testMaster)}
			d, err := pgstore.Connect(t.Context(), o, 0)
			if !errors.Is(err, pgstore.ErrPooler) || err.Error() != pgstore.ErrPooler.Error() || !strings.Contains(err.Error(), "pool_mode = session") {
				t.Errorf("it starts: %t, %v", err == nil, err)
			}
			if err == nil {
				_ = d.Close()
			}
			if d, err := pgstore.Open(t.Context(), o); !errors.Is(err, pgstore.ErrPooler) {
				t.Errorf("it opens: %t, %v", err == nil, err)
				if err == nil {
					_ = d.Close()
				}
			}
		})
	}
}

// A node that stops within a transaction, behind a pooler, holds up the others for less than their patience.
func TestLimitsEndAnIdleTransaction(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url := strings.Replace(fresh(t, server), server.URL, server.Bouncer(t, "session"), 1)
	d := node(t, pgstore.Options{URL: url, Dir: t.TempDir()})
	k := keyOn(t, d)
	pays(t, d, k, 1)
	begun := make(chan error, 1)
	if err := d.Idle(t.Context(), k.ID, func() {
		go func() {
			_, err := insist(t.Context(), func() (pay.Begun, error) { return d.Begin(t.Context(), callOf(k, d.Now())) })
			begun <- err
		}()
		wait(t, "the payment behind it", func() bool { return len(begun) == 1 })
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-begun; err != nil {
		t.Error(err)
	}
}
