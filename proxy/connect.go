package proxy

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// connect serves CONNECT with a blind tunnel.
func (f *Forward) connect(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 {
		f.refuse(w, r, &refusal{status: http.StatusHTTPVersionNotSupported, reason: reasonProtocol, text: "This proxy speaks HTTP/1.1"})
		return
	}
	host, port, err := splitAuthority(r.Host)
	if err != nil || r.URL.Path != "" {
		f.refuse(w, r, badRequest("CONNECT needs a host and a port"))
		return
	}
	if looped(r.Header, f.pseudonym) {
		f.refuse(w, r, &refusal{status: http.StatusLoopDetected, reason: reasonLoop, text: "This request has been through this proxy already"})
		return
	}
	who, no := f.authenticate(r)
	if no != nil {
		f.refuse(w, r, no)
		return
	}
	t, ok := f.tunnels.acquire(who.key.ID)
	if !ok {
		f.refuse(w, r, &refusal{
			status: http.StatusServiceUnavailable, reason: reasonTunnels, text: "Too many tunnels are open",
			header: http.Header{"Retry-After": {"5"}},
		})
		return
	}
	defer t.release()
	upstream, err := f.guard.DialContext(r.Context(), "tcp", net.JoinHostPort(host, strconv.Itoa(int(port))))
	if err != nil {
		f.refuseError(w, r, err)
		return
	}
	defer upstream.Close()
	client, early, err := hijack(w)
	if err != nil {
		f.log.Error("CONNECT not taken over", "error", err)
		f.refuse(w, r, &refusal{status: http.StatusInternalServerError, reason: DeclinedInternal, text: "Internal error"})
		return
	}
	defer client.Close()
	f.log.Debug("tunnel opened", "key", who.key.ID, "host", host, "port", port, "address", upstream.RemoteAddr().String())
	t.run(client, upstream, early)
}

// hijack takes the connection over, with what the client has sent already.
func hijack(w http.ResponseWriter) (conn net.Conn, early []byte, err error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, fmt.Errorf("taking the connection over: %w", err)
	}
	_ = conn.SetDeadline(time.Time{}) // the server's deadlines are for requests
	if n := buffered.Reader.Buffered(); n > 0 {
		early = make([]byte, n)
		if _, err := buffered.Read(early); err != nil { // from the buffer alone
			_ = conn.Close()
			return nil, nil, fmt.Errorf("reading what came early: %w", err)
		}
	}
	return conn, early, nil
}
