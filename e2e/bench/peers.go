package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// peersInstalled is a file that npm writes when the reference clients are complete.
const peersInstalled = "e2e/peers/node_modules/.package-lock.json"

// peerWarmup is longer than warmup, because Node compiles code that runs often.
const peerWarmup = time.Second

// peersUsable returns why the reference clients cannot run, or nil.
func peersUsable() error {
	if _, err := os.Stat(peersInstalled); err != nil {
		return errors.New("the reference clients are not installed: make e2e-deps")
	}
	if _, err := exec.LookPath("node"); err != nil {
		return errors.New("node is not installed")
	}
	return nil
}

// runPeers lets the reference clients of both protocol versions buy from the same seller. They pay
// by themselves and keep no books.
func (b *bench) runPeers(ctx context.Context, clients int) {
	for _, peer := range []struct{ name, version, path string }{{fetchV2, "2", "/paid"}, {fetchV1, "1", "/paid-v1"}} {
		m, err := b.runPeer(ctx, peer.version, peer.path, clients)
		if err != nil {
			b.report.skip(fmt.Sprintf("paid, %s, %s", peer.name, counted(clients)), err.Error())
			continue
		}
		b.report.add("paid", peer.name, m)
	}
}

func (b *bench) runPeer(ctx context.Context, version, path string, clients int) (measurement, error) {
	ctx, cancel := context.WithTimeout(ctx, b.length+time.Minute)
	defer cancel()
	var account [32]byte
	rand.Read(account[:]) // cannot fail
	cmd := exec.CommandContext(ctx, "node", "e2e/bench/peers.mjs")
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"),
		"URL=" + b.seller.url + path, "VERSION=" + version, "CLIENTS=" + strconv.Itoa(clients),
		"PRIVATE_KEY=0x" + hex.EncodeToString(account[:]),
		"WARMUP=" + strconv.FormatInt(peerWarmup.Milliseconds(), 10), "LENGTH=" + strconv.FormatInt(b.length.Milliseconds(), 10),
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	b.seller.takeGaps()
	out, err := cmd.Output()
	if err != nil {
		return measurement{}, fmt.Errorf("%w: %s", err, tail(said.Bytes()))
	}
	var did struct {
		Times          []float64 // of each request, ms
		Took, CPU, MiB float64   // ms, ms, MiB
	}
	if err := json.Unmarshal(out, &did); err != nil {
		return measurement{}, fmt.Errorf("it printed %q: %w", tail(out), err)
	}
	times := make([]time.Duration, len(did.Times))
	for i, t := range did.Times {
		times[i] = time.Duration(t * float64(time.Millisecond))
	}
	if len(times) == 0 {
		return measurement{}, errors.New("it bought nothing")
	}
	m := measurement{
		Clients: clients, Requests: len(times), Rate: float64(len(times)) / did.Took * 1000,
		CPU: did.CPU / float64(len(times)), MiB: did.MiB,
	}
	m.P50, m.P99 = percentiles(times)
	m.GapP50, m.GapP99, _ = b.seller.takeGaps()
	return m, nil
}
