package conns

import (
	"cmp"
	"math"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Looks: the system tells what has become of a connection without reading from it.
const Looks = true

// ended reports whether the other side has closed, or broken off, its direction of a connection. Bytes that
// it has sent before need not have been read.
func ended(fd int) bool {
	look := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}} //nolint:gosec // descriptors are small
	n, err := unix.Poll(look, 0)
	return err == nil && n > 0
}

// severed reports whether both directions of a connection are over. A connection that the other side has closed,
// and that nothing was written to since, is not known to be over.
func severed(fd int) bool {
	look := []unix.PollFd{{Fd: int32(fd)}} //nolint:gosec // descriptors are small
	n, err := unix.Poll(look, 0)
	return err == nil && n > 0
}

// bound sets how long bytes may stay unacknowledged; 0: as long as the system likes.
func bound(c *net.TCPConn, d time.Duration) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
}

// sent is a socket that an answer was written to. It is a duplicate: the connection stays open until it is
// closed, whatever the server does.
type sent struct {
	fd   int
	unix bool
	tls  bool
	// body is the position of the end of the answer's body; MaxUint64: it was not written when the watch was
	// made. end is the position of all that was written when the watch looked first; 0: not known.
	body, end uint64
	begun     uint64 // the position when the watch was made
	more      bool   // nothing was written since then, and something will be
	corked    bool   // see cork
	marked    bool   // see mark
	least     uint64 // a position in the last of the marked bytes
	got       bool   // all that was written before the mark is acknowledged
}

func duplicate(c *client, body, more bool) (s *sent, err error) {
	if refused := c.socket.Control(func(fd uintptr) {
		var n int
		n, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
		s = &sent{fd: n, unix: c.unix, tls: c.tls, more: more && !c.unix}
	}); refused != nil {
		return nil, refused
	}
	if err != nil || s.unix {
		return s, err
	}
	if queued, broken := unix.IoctlGetInt(s.fd, unix.SIOCOUTQ); broken == nil && (queued > 0 || more) {
		_, s.begun = s.position()
	}
	if s.body = s.begun; !body {
		s.body = math.MaxUint64
	}
	return s, err
}

// position returns how much the other side has acknowledged, whether the connection is over, and the position
// of all that was written. An acknowledgement may come between the two questions for them.
func (s *sent) position() (info *unix.TCPInfo, end uint64) {
	for acked := uint64(math.MaxUint64); ; acked = info.Bytes_acked {
		queued, err := unix.IoctlGetInt(s.fd, unix.SIOCOUTQ)
		if err == nil {
			info, err = unix.GetsockoptTCPInfo(s.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		}
		if err != nil {
			return &unix.TCPInfo{State: unix.BPF_TCP_CLOSE}, math.MaxUint64
		}
		if queued == 0 || info.Bytes_acked == acked {
			return info, info.Bytes_acked + uint64(queued) //nolint:gosec // not negative
		}
	}
}

// cork holds back what is written from here on, until what was written before is acknowledged. The system lets
// it go after 200 ms at the latest, when the other side has acknowledged what it has got (tcp(7)).
func (s *sent) cork() {
	s.corked = unix.SetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_CORK, 1) == nil
}

// mark makes what has been written so far the body of the answer.
func (s *sent) mark(length int) {
	s.least = s.begun + uint64(length) //nolint:gosec // not negative
	s.marked, s.more, s.end = true, false, 0
	if !s.unix {
		_, s.body = s.position()
	}
}

func (s *sent) uncork() {
	if s.corked {
		s.corked = false
		_ = unix.SetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_CORK, 0)
	}
}

func (s *sent) close() {
	s.uncork()
	_ = unix.Close(s.fd)
}

// await looks, less and less often, until all is acknowledged and, if the client is to close the connection,
// that has happened. If it closes it only behind the server's end, it has waited for that.
func (s *sent) await(closes bool) bool {
	begun := time.Now()
	if closes && s.tls && s.body == math.MaxUint64 {
		s.body = 0 // TLS ends the connection behind the answer, and may break it off with that
	}
	var (
		acked  bool
		last   uint64
		change = begun // when more was acknowledged, or all
		closed bool    // the server's end was told
	)
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		time.Sleep(pause)
		now := time.Now()
		if !acked {
			at, all, lost := s.look()
			if lost {
				return false
			}
			if all || at >= s.body {
				s.uncork()
			}
			if acked = all; all || at != last {
				last, change = at, now
			}
		}
		switch {
		case acked && (!closes || ended(s.fd)):
			return !closed
		case acked && closed && now.Sub(change) > closeWait+endWait:
			return true
		case acked && !closed && now.Sub(change) > closeWait:
			closed = true
			_ = unix.Shutdown(s.fd, unix.SHUT_WR)
		case !acked && (now.Sub(change) > ackQuiet || now.Sub(begun) > ackWait):
			return false
		}
	}
}

// look returns the position up to which is acknowledged, whether that is all, and whether no more will be.
//
// Later answers on the connection may follow, so it asks for a position: that of all that was written when it
// looked first, the end of the answer included. If the client has closed the connection by then, the body is
// enough, because a server may write to such a connection. On a Unix socket there is no position, and what
// the other side has not read when it closes the connection is an error.
func (s *sent) look() (at uint64, all, lost bool) {
	if !s.got {
		at, all, lost = s.ask()
		s.got = s.marked && all
	}
	return at, all || s.got, lost
}

func (s *sent) ask() (at uint64, all, lost bool) {
	queued, err := unix.IoctlGetInt(s.fd, unix.SIOCOUTQ)
	if err != nil {
		return 0, false, true
	}
	if s.unix {
		if queued > 0 {
			return uint64(queued), false, false
		}
		broken, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
		return 0, true, err != nil || broken != 0
	}
	if queued == 0 && !s.more {
		return 0, true, false
	}
	info, end := s.position()
	if s.more = s.more && end <= s.begun; !s.more {
		s.end = cmp.Or(s.end, end)
	}
	over := info.State == unix.BPF_TCP_CLOSE
	all = s.end != 0 && info.Bytes_acked >= s.end || over && (info.Bytes_acked >= s.body || s.noticed(info.Bytes_acked, end))
	return info.Bytes_acked, all, !all && over
}

// noticed reports whether all that a client has not acknowledged of an answer whose end is not known is the notice
// with which TLS ends a connection. The client has closed the connection before, and a reset has answered the notice.
func (s *sent) noticed(acked, end uint64) bool {
	known := s.body != math.MaxUint64 && (!s.marked || acked < s.least) // the mark may come behind the notice
	if known || !s.tls || s.more || end-acked > maxNotice {
		return false
	}
	broken, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	return err == nil && syscall.Errno(broken) == unix.EPIPE //nolint:gosec // an errno
}

// maxNotice bounds a TLS alert, in bytes with the header of its record (RFC 8446 §5.1, RFC 5246 §6.2.3).
const maxNotice = 64
