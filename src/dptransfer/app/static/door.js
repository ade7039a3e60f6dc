// Exchange the token in the link for a cookie, once; later visits in this browser go where it led.
const token = location.hash.slice(1)
history.replaceState(null, '', '/')
let room = localStorage.getItem('room')
if (token) {
  const answer = await fetch('/open', { method: 'POST', body: new URLSearchParams({ token }) })
  if (answer.ok) {
    room = (await answer.json()).room
    localStorage.setItem('room', room)
  }
}
const found = room && (await fetch(room + 'status')).ok
if (found) location.replace(room)
else {
  document.getElementById('said').textContent = token
    ? 'This link was used already, perhaps in another browser. For a new one, start the app again.'
    : 'Open the app by the link that the terminal shows.'
}
