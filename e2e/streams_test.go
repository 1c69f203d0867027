package e2e

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/purserpay/purser/sandbox"
	"github.com/purserpay/purser/x402"
)

// ways are all doors of a scheme as clients use them.
func (d *doors) ways(t *testing.T, scheme string) []door {
	t.Helper()
	direct := plainly(t)
	ways := []door{
		{"transport", direct, d.base(viaTransport, scheme)},
		{"sidecar", direct, d.base(viaSidecar, scheme)},
		{"forward proxy", d.behind(t, false), d.site.url(scheme)},
	}
	if scheme == "https" {
		ways = append(ways, door{"forward proxy, HTTP/2", d.behind(t, true), d.site.url(scheme)})
	}
	return ways
}

// firstEvent returns how long the first event of a stream took, and the rest of the stream.
func (d door) firstEvent(t *testing.T, path, first string) (time.Duration, *bufio.Reader, io.Closer) {
	t.Helper()
	start := time.Now()
	res, err := d.client.Get(d.base + path)
	if err != nil {
		t.Fatalf("%s: %v", d.name, err)
	}
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d", d.name, res.StatusCode)
	}
	events := bufio.NewReader(res.Body)
	if line, err := events.ReadString('\n'); err != nil || line != first+"\n" {
		t.Fatalf("%s: %q %v", d.name, line, err)
	}
	return time.Since(start), events, res.Body
}

// The first event of a stream comes as soon as through Caddy's own reverse proxy, and before there is a second one.
func TestFirstEvent(t *testing.T) {
	t.Parallel()
	d := startDoors(t, startSite(t, nameOther, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: first\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // no event follows, so the client waits in vain
	})))
	for _, scheme := range schemes {
		once := func(way door) time.Duration {
			took, _, body := way.firstEvent(t, "/", "data: first")
			_ = body.Close()
			return took
		}
		plain := door{"caddy", plainly(t), d.base(viaCaddy, scheme)}
		for _, way := range d.ways(t, scheme) {
			// The best of each counts. An event that is held back is late every time; one that other tests
			// delay is not.
			took, caddy := time.Hour, time.Hour
			late := func() bool { return took > 2*caddy+20*time.Millisecond }
			for n := 0; n < 7 || n < 50 && late(); n++ {
				took, caddy = min(took, once(way)), min(caddy, once(plain))
			}
			t.Logf("%s, %s: %s, Caddy %s", scheme, way.name, took, caddy)
			if late() {
				t.Errorf("%s, %s: the first event took %s, through Caddy %s", scheme, way.name, took, caddy)
			}
		}
	}
}

// A stream that is paid before its first event comes as it is written. The official middleware holds answers back until
// their end, so the seller is the sandbox's.
func TestPaidStream(t *testing.T) {
	t.Parallel()
	_, payTo, err := newAccount()
	if err != nil {
		t.Fatal(err)
	}
	s := startSite(t, nameOther, sandbox.NewSeller(sandbox.SellerOptions{Facilitator: env.facilitator, PayTo: x402.EVMAddress(payTo), Client: direct}))
	p := sharedPurser(t)
	for _, scheme := range schemes {
		for _, h2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %v", scheme, h2), func(t *testing.T) {
				t.Parallel()
				payer := p.newPayer(t)
				way := door{scheme, payer.behind(t, h2), s.url(scheme)}
				_, events, body := way.firstEvent(t, "/stream?events=3&interval=3s", "id: 1")
				defer body.Close()
				start := time.Now()
				rest, err := io.ReadAll(events)
				if err != nil || strings.Count(string(rest), "data: ") != 3 {
					t.Errorf("then %q: %v", rest, err)
				}
				if took := time.Since(start); took < 3*time.Second { // the seller takes 6 s
					t.Errorf("all events came within %s", took)
				}
				moved := env.paid(t, payer.wallet)
				if len(moved) != 1 || moved[0].To != payTo {
					t.Errorf("paid %+v", moved)
				}
			})
		}
	}
}

// echoes returns a WebSocket server that echoes. With a challenge, it answers 402 to a client that
// has not paid.
func echoes(challenge http.Header) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if challenge != nil && !paidRequest(r, nil) {
			for name, values := range challenge {
				w.Header()[name] = values
			}
			w.WriteHeader(http.StatusPaymentRequired)
			return
		}
		conn, err := new(websocket.Upgrader).Upgrade(w, r, nil)
		if err != nil {
			return // it has been answered
		}
		defer conn.Close()
		for {
			kind, data, err := conn.ReadMessage()
			if err != nil || conn.WriteMessage(kind, data) != nil {
				return
			}
		}
	}
}

// WebSockets echo through every door, free and paid.
func TestWebSocket(t *testing.T) {
	t.Parallel()
	asked := send(t, direct, "GET", env.v2.url+"/paid", "")
	challengeOf(t, asked)
	for name, challenge := range map[string]http.Header{"free": nil, "paid": {"Payment-Required": asked.Header.Values(x402.HeaderRequired)}} {
		d := startDoors(t, startSite(t, nameOther, echoes(challenge)))
		proxied := websocket.Dialer{
			Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: d.host, User: url.UserPassword(d.key, "socket")}),
			TLSClientConfig: &tls.Config{RootCAs: d.roots(t)}, HandshakeTimeout: 30 * time.Second,
		}
		direct := websocket.Dialer{HandshakeTimeout: 30 * time.Second}
		for _, scheme := range schemes {
			for way, dial := range map[string]func() (*websocket.Conn, *http.Response, error){
				"forward proxy": func() (*websocket.Conn, *http.Response, error) {
					return proxied.DialContext(t.Context(), "ws"+strings.TrimPrefix(d.site.url(scheme), "http"), nil)
				},
				"transport": func() (*websocket.Conn, *http.Response, error) {
					return direct.DialContext(t.Context(), "ws"+strings.TrimPrefix(d.base(viaTransport, scheme), "http"), nil)
				},
				"sidecar": func() (*websocket.Conn, *http.Response, error) {
					return direct.DialContext(t.Context(), "ws"+strings.TrimPrefix(d.base(viaSidecar, scheme), "http"), nil)
				},
			} {
				t.Run(name+" "+scheme+" "+way, func(t *testing.T) {
					conn, res, err := dial()
					if err != nil {
						t.Fatalf("%v: %+v", err, res)
					}
					defer conn.Close()
					if paid := res.Header.Get("Purser-Payment") != ""; paid != (challenge != nil) {
						t.Errorf("headers %v", res.Header)
					}
					_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
					for _, text := range []string{"hello", strings.Repeat("x", 100_000), ""} {
						if err := conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
							t.Fatal(err)
						}
						if _, got, err := conn.ReadMessage(); err != nil || string(got) != text {
							t.Fatalf("%d bytes came back of %d: %v", len(got), len(text), err)
						}
					}
				})
			}
		}
	}
}

// A download of much more than the memory that purser may have goes through it.
func TestDownloadInConstantMemory(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux says how much memory a process has had")
	}
	const size, limit = 256 << 20, 100 << 10 // bytes, KiB
	zeros := make([]byte, 1<<20)
	d := startDoors(t, startSite(t, nameOther, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(size))
		for range size / len(zeros) {
			if _, err := w.Write(zeros); err != nil {
				return
			}
		}
	})))
	for _, scheme := range schemes {
		cmd := d.execCommand(t, nil, "curl", "-sS", "-o", "/dev/null", "-m", "85", "-w", "%{http_code} %{size_download}", d.site.url(scheme))
		if stdout, _ := runAgent(t, cmd); stdout != "200 "+strconv.Itoa(size) {
			t.Errorf("%s: %s", scheme, stdout)
		}
		most := highWater(t, d.purser.Cmd.Process.Pid)
		t.Logf("%s: %d MiB at most", scheme, most>>10)
		if most > limit {
			t.Errorf("%s: purser had %d MiB, want %d at most", scheme, most>>10, limit>>10)
		}
	}
}

// highWater is the most memory that a process has had, in KiB.
func highWater(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			n, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no VmHWM in %s", text)
	return 0
}
