// Show how far the work is without loading the page again; when it is over, the page goes on.
const bar = document.querySelector('progress')
const step = document.getElementById('step')
const share = document.getElementById('share')
const time = document.getElementById('time')

async function look () {
  const now = await (await fetch('status')).json()
  if (!now.running) return location.reload()
  if (step.textContent !== now.step) step.textContent = now.step // read aloud, so only when it changes
  if (now.share > 0) bar.value = now.share
  else bar.removeAttribute('value')
  share.textContent = now.share > 0 ? Math.round(100 * now.share) + ' %' : ''
  time.textContent = Math.floor(now.seconds / 60) + ' min ' + (now.seconds % 60) + ' s'
}

async function watch () {
  try {
    await look()
    setTimeout(watch, 1000)
  } catch {
    step.textContent = 'The app does not answer. If it was ended, the ledger says what was charged.'
  }
}
watch()
