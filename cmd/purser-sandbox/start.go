package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox"
	"github.com/purserpay/purser/x402"
)

const (
	// attempts is the number of tries to find free ports, because another program may take one in
	// between.
	attempts = 5
	// stopTime is the time that purser has to finish before the world ends.
	stopTime = 3 * time.Second
)

// running is a running sandbox with all its parts.
type running struct {
	about about
	world *sandbox.World
	dir   string // our own temporary folder

	closing  sync.Once
	closeErr error
}

// start starts all parts and returns when all answer. The caller must close the result, even after
// an error.
func start(ctx context.Context, f flags, progress io.Writer) (*running, error) {
	s := new(running)
	// Caddy's admin endpoint can end the process too.
	caddy.OnExit(func(context.Context) { _ = s.close() })
	var err error
	if s.dir, err = os.MkdirTemp("", "purser-sandbox-"); err != nil {
		return s, fmt.Errorf("make a folder: %w", err)
	}
	ports, err := reserve(ctx, f.port)
	if err != nil {
		return s, elsewhere(err)
	}
	defer func() { ports.release() }()

	fmt.Fprintf(progress, "starting a chain, a facilitator and a seller …\n")
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	// Not ctx: the world must outlast purser, which may still finish payments after the signal.
	s.world, err = sandbox.Start(context.WithoutCancel(ctx), sandbox.Options{
		Port: f.port, PublicURL: os.Getenv(publicURL), Logger: log,
	})
	if err != nil {
		return s, elsewhere(err)
	}

	fmt.Fprintf(progress, "starting purser …\n")
	p := place{dataDir: f.data, adminSocket: filepath.Join(s.dir, "admin.sock"), verbose: f.verbose}
	if p.dataDir == "" {
		p.dataDir = filepath.Join(s.dir, "data")
	}
	if p.dataDir, err = filepath.Abs(p.dataDir); err != nil {
		return s, fmt.Errorf("-data: %w", err)
	}
	for try := 1; ; try++ {
		p.api, p.metrics = ports.api.Addr().String(), ports.metrics.Addr().String()
		ports.release()
		if err = load(ctx, p, s.world); err == nil {
			break
		}
		if f.port != 0 || try == attempts || !errors.Is(err, syscall.EADDRINUSE) {
			return s, elsewhere(err)
		}
		if ports, err = reserve(ctx, 0); err != nil {
			return s, err
		}
	}

	s.about = about{
		API: "http://" + p.api, Dashboard: dashboard("http://" + p.api), Seller: s.world.SellerURL(), SellerTLS: s.world.SellerTLSURL(),
		Facilitator: s.world.FacilitatorURL(), RPC: s.world.RPCURL(), Token: s.world.Token().String(), CA: p.root(),
		Metrics: "http://" + p.metrics + "/metrics", Admin: "unix/" + p.adminSocket, Data: p.dataDir,
		sellerDirect: s.world.SellerDirectURL(), purser: purserProgram(),
	}
	return s, s.furnish(ctx, adminClient(p.adminSocket), !f.json, progress)
}

// publicURL names the variable with the public address of purser's dashboard.
const publicURL = "PURSER_PUBLIC_URL"

func dashboard(api string) string {
	return strings.TrimSuffix(cmp.Or(os.Getenv(publicURL), api), "/") + "/dashboard/"
}

// load runs purser.
func load(ctx context.Context, p place, w *sandbox.World) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return caddy.Load(configuration(p, w), true)
}

// furnish makes a key and a wallet with money. It adds the key to the organization of the
// dashboard's user, funds the key of `purser exec`, and checks that all parts answer. With samples,
// it also buys some things, so that the dashboard has something to show.
func (s *running) furnish(ctx context.Context, admin client, samples bool, progress io.Writer) error {
	fmt.Fprintf(progress, "making a key and a wallet …\n")
	c := apiClient(s.about.API)
	var err error
	if s.about.Key, err = c.newKey(ctx); err != nil {
		return err
	}
	wallet, err := c.newWallet(ctx, s.about.Key)
	if err != nil {
		return err
	}
	amount, err := money.ParseUnits(funds, decimals)
	if err != nil {
		return err
	}
	execWallet, err := admin.execWallet(ctx)
	if err != nil {
		return err
	}
	for _, owner := range []x402.Address{wallet, execWallet} {
		if err := errors.Join(s.world.Fund(ctx, owner, amount), s.world.FundGas(ctx, owner)); err != nil {
			return err
		}
	}
	s.about.Wallet = wallet.String()
	s.about.Proxy = "http://" + s.about.Key + ":sandbox@" + s.about.API[len("http://"):]
	roomy, err := admin.giveKey(ctx, s.world, s.about.Key)
	if err != nil {
		return err
	}
	if !roomy {
		fmt.Fprintf(progress, "the dashboard has no room for another key; use another -data to see this one there\n")
	}
	if samples {
		fmt.Fprintf(progress, "paying for a few things …\n")
		if err := s.buySamples(ctx, wallet, amount); err != nil {
			return err
		}
	}
	return c.healthy(ctx)
}

// purserProgram returns the command that runs purser, which usually lies beside this program.
func purserProgram() string {
	const name = "purser"
	own, err := os.Executable()
	if err != nil {
		return name
	}
	beside, err := exec.LookPath(filepath.Join(filepath.Dir(own), name))
	if err != nil {
		return name
	}
	return beside
}

// close ends all parts and removes their files. Later calls wait for the first one.
func (s *running) close() error {
	s.closing.Do(func() {
		stopped := make(chan error, 1)
		go func() { stopped <- caddy.Stop() }()
		var errs []error
		select {
		case err := <-stopped:
			errs = append(errs, err)
		// A client still holds a stream or a tunnel open.
		case <-time.After(stopTime):
			errs = append(errs, s.world.Close(), <-stopped)
		}
		errs = append(errs, s.world.Close())
		if s.dir != "" {
			errs = append(errs, os.RemoveAll(s.dir)) //nolint:gosec // the folder that start made
		}
		s.closeErr = errors.Join(errs...)
	})
	return s.closeErr
}
