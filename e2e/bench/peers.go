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

// runPeers lets the bare Go client, and the reference clients of both protocol versions if they are
// usable, buy from the same seller. They pay by themselves and keep no books.
func (b *bench) runPeers(ctx context.Context, clients int, usable bool) {
	self, err := os.Executable()
	if err != nil {
		b.report.skip("paid, "+bareGo, err.Error())
		return
	}
	peers := []struct {
		name, path string
		program    []string
		setting    string
	}{{bareGo, "/paid", []string{self}, bareVariable + "=1"}}
	if usable {
		node := []string{"node", "e2e/bench/peers.mjs"}
		peers = append(peers, peers[0], peers[0])
		peers[1].name, peers[1].program, peers[1].setting = fetchV2, node, "VERSION=2"
		peers[2].name, peers[2].path, peers[2].program, peers[2].setting = fetchV1, "/paid-v1", node, "VERSION=1"
	}
	for _, peer := range peers {
		m, err := b.runPeer(ctx, peer.program, peer.path, clients, peer.setting)
		if err != nil {
			b.report.skip(fmt.Sprintf("paid, %s, %s", peer.name, counted(clients)), err.Error())
			continue
		}
		b.report.add("paid", peer.name, m)
	}
}

// bought is the line that a peer prints: time of each request, whole time, and processor time in
// milliseconds, and its memory.
type bought struct {
	Times []float64 `json:"times"`
	Took  float64   `json:"took"`
	CPU   float64   `json:"cpu"`
	MiB   float64   `json:"mib"`
}

func (b *bench) runPeer(ctx context.Context, program []string, path string, clients int, setting string) (measurement, error) {
	ctx, cancel := context.WithTimeout(ctx, b.length+time.Minute)
	defer cancel()
	var account [32]byte
	rand.Read(account[:])                                       // cannot fail
	cmd := exec.CommandContext(ctx, program[0], program[1:]...) //nolint:gosec // ourselves, or Node with our script
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), setting,
		"URL=" + b.seller.url + path, "CLIENTS=" + strconv.Itoa(clients),
		"PRIVATE_KEY=0x" + hex.EncodeToString(account[:]),
		"WARMUP=" + strconv.FormatInt(peerWarmup.Milliseconds(), 10), "LENGTH=" + strconv.FormatInt(b.length.Milliseconds(), 10),
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	b.seller.takeGaps()
	out, err := cmd.Output()
	if err != nil {
		return measurement{}, fmt.Errorf("%w: %s", err, tail(stderr.Bytes()))
	}
	var did bought
	if err := json.Unmarshal(out, &did); err != nil {
		return measurement{}, fmt.Errorf("it printed %q: %w", tail(out), err)
	}
	if len(did.Times) == 0 {
		return measurement{}, errors.New("it bought nothing")
	}
	times := make([]time.Duration, len(did.Times))
	for i, t := range did.Times {
		times[i] = time.Duration(t * float64(time.Millisecond))
	}
	m := measurement{
		Clients: clients, Requests: len(times), Rate: float64(len(times)) / did.Took * 1000,
		CPU: did.CPU / float64(len(times)), MiB: did.MiB,
	}
	m.P50, m.P99 = percentiles(times)
	m.GapP50, m.GapP99, _ = b.seller.takeGaps()
	return m, nil
}
